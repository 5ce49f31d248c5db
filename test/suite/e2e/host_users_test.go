package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ownUsers: where the runtime can give a pod users of its own, root in it is nobody on
// the host, owns what it mounts all the same, and sees all of /proc; else the pod is
// refused.
func ownUsers(l *hostLife) {
	const script = `read inside outside ids </proc/self/uid_map; echo users $inside $ids; test $outside -ge 65536 && echo beyond the host
for v in /disk /memory; do touch $v/file && echo $v $(stat -c '%u %g' $v $v/file); done
stat -c 'hosts %u' /etc/hosts; grep -c /proc/sys /proc/self/mounts; exec sleep 1000000`
	emptyDir := func(medium corev1.StorageMedium) corev1.VolumeSource {
		return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium}}
	}
	pod := l.create(l.pod([]string{"sh", "-c", script}, secured(
		corev1.SecurityContext{ProcMount: new(corev1.UnmaskedProcMount)},
	),
		podSecured(corev1.PodSecurityContext{FSGroup: new(int64(2000))}), spec(func(s *corev1.PodSpec) {
			s.HostUsers = new(false)
			s.Volumes = append(s.Volumes, corev1.Volume{Name: "disk", VolumeSource: emptyDir(corev1.StorageMediumDefault)},
				corev1.Volume{Name: "memory", VolumeSource: emptyDir(corev1.StorageMediumMemory)})
			s.Containers[0].VolumeMounts = append(s.Containers[0].VolumeMounts,
				corev1.VolumeMount{Name: "disk", MountPath: "/disk"}, corev1.VolumeMount{Name: "memory", MountPath: "/memory"})
		})))
	runtime, err := l.h.cri.Status(l.Context(), &runtimeapi.StatusRequest{})
	l.must(err)
	can := slices.ContainsFunc(runtime.GetRuntimeHandlers(), func(h *runtimeapi.RuntimeHandler) bool {
		return h.GetName() == "" && h.GetFeatures().GetUserNamespaces()
	})
	if !can {
		l.until("refused, as the runtime cannot do it", func(pod *corev1.Pod) error {
			if pod.Status.Reason == "UnsupportedByBackend" && strings.Contains(pod.Status.Message, "spec.hostUsers") {
				return nil
			}
			return fmt.Errorf("%s %s: %s %s", pod.Status.Phase, pod.Status.Reason, pod.Status.Message, states(&pod.Status))
		})
		return
	}
	l.until("Ready", isReady)
	l.says("app", "users 0 65536", "beyond the host", "/disk 0 2000 0 2000", "/memory 0 2000 0 2000", "hosts 0", "0")
	first, err := strconv.Atoi(l.inside("read inside outside ids </proc/self/uid_map; echo $outside"))
	l.must(err)
	// On the host it is nobody's process, and root's file.
	if got, want := l.outside(fmt.Sprintf(
		"stat -c %%u /var/lib/burstlet/pods/%s/volumes/disk/file", pod.UID,
	)), "0"; got != want {
		l.Errorf("the file is %s's on the host, want %s's", got, want)
	}
	if got := l.outside(fmt.Sprintf("cat /proc/[0-9]*/status | grep -c '^Uid:.%d' || true", first)); got == "0" {
		l.Errorf("no process of the host has the user %d", first)
	}
}
