package syncloop_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// A volume that is an image is pulled as the image of a container is, and the container
// mounts its files. Events of the pull are the pod's, that of the failed start names the
// container (kubelet: getImageVolumes).
func TestImageVolumes(t *testing.T) {
	const image = "r.example/private/data:1"
	hide := func(b *backend.Backend) { b.Images = private{b.Images, "r.example/private/"} }
	alone(t, hide, func(t *testing.T, a *api) {
		a.havePullSecret()
		mounts := func(pod *corev1.Pod) {
			pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				Image: &corev1.ImageVolumeSource{Reference: image, PullPolicy: corev1.PullIfNotPresent},
			}}}
			pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		}
		withSecret := func(pod *corev1.Pod) {
			mounts(pod)
			pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}}
		}
		a.create("none", "u1", "Always", mounts, "sleep", "infinity")
		time.Sleep(time.Second)
		waits := func(reason, message string) {
			t.Helper()
			w := a.get("none").Status.ContainerStatuses[0].State.Waiting
			if w == nil || w.Reason != reason || w.Message != message {
				t.Errorf("waits with %+v, want %s: %s", w, reason, message)
			}
		}
		waits("ErrImagePull", "401 Unauthorized")
		if e := a.event("none", "Failed"); !strings.Contains(e, "Failed to pull image \""+image+"\": 401 Unauthorized") {
			t.Errorf("Event %q", e)
		}
		time.Sleep(7 * time.Second)
		waits("ImagePullBackOff", "Back-off pulling image \""+image+"\": ErrImagePull: 401 Unauthorized")
		if e := a.event("none", "BackOff"); !strings.HasSuffix(e, "Back-off pulling image \""+image+"\"") {
			t.Errorf("Event %q", e)
		}
		a.create("mine", "u2", "Always", withSecret, "grep", "data:1", "/data/etc/os-release")
		a.create("never", "u3", "Never", withSecret, "touch", "/data/x")
		time.Sleep(10 * time.Second)
		if e := a.event("mine", "Pulled"); !strings.Contains(e, image) {
			t.Errorf("Event %q", e)
		}
		if s := a.get("mine").Status.ContainerStatuses[0]; s.RestartCount == 0 ||
			s.LastTerminationState.Terminated.ExitCode != 0 {
			t.Errorf("the container does not see the image's files: %+v", s)
		}
		if s := a.get("never").Status.ContainerStatuses[0].State.Terminated; s == nil || s.ExitCode == 0 {
			t.Errorf("the container may write to the image: %+v", s)
		}
		a.phase("none", corev1.PodPending) // an image on the remote is no way around the registry
	})
}
