package cri

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// kernel answers for what it says about AppArmor; nothing else of it is asked.
type kernel struct {
	host.Host
	says string
	err  error
}

func (k kernel) ReadFile(context.Context, string, int64) ([]byte, error) {
	return []byte(k.says), k.err
}

// TestAppArmorThatNobodyEnforcesIsRefused: as a kubelet's appArmorAdmitHandler does.
func TestAppArmorThatNobodyEnforcesIsRefused(t *testing.T) {
	profile := func(kind corev1.AppArmorProfileType) *corev1.AppArmorProfile {
		return &corev1.AppArmorProfile{Type: kind}
	}
	onPod := func(kind corev1.AppArmorProfileType) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			s.SecurityContext = &corev1.PodSecurityContext{AppArmorProfile: profile(kind)}
		}
	}
	onContainer := func(s *corev1.PodSpec) {
		s.Containers[0].SecurityContext = &corev1.SecurityContext{
			AppArmorProfile: profile(corev1.AppArmorProfileTypeLocalhost),
		}
	}
	onInit := func(s *corev1.PodSpec) {
		s.InitContainers = []corev1.Container{{}, {SecurityContext: &corev1.SecurityContext{
			AppArmorProfile: profile(corev1.AppArmorProfileTypeRuntimeDefault),
		}}}
	}
	without := kernel{err: fs.ErrNotExist}
	for _, tt := range []struct {
		name   string
		kernel kernel
		change func(*corev1.PodSpec)
		// want begins the error; empty for none. class is what it is.
		want  string
		class error
	}{
		{"a pod that asks for none", kernel{err: errors.New("not asked")}, func(*corev1.PodSpec) {}, "", nil},
		{"unconfined", kernel{err: errors.New("not asked")}, onPod(corev1.AppArmorProfileTypeUnconfined), "", nil},
		{"enforced", kernel{says: "Y\n"}, onPod(corev1.AppArmorProfileTypeRuntimeDefault), "", nil},
		{
			"turned off",
			kernel{says: "N\n"},
			onPod(corev1.AppArmorProfileTypeRuntimeDefault),
			"spec.securityContext.appArmorProfile: ", backend.ErrUnsupported,
		},
		{
			"no such module", without, onPod(corev1.AppArmorProfileTypeLocalhost), "spec.securityContext.appArmorProfile: ",
			backend.ErrUnsupported,
		},
		{
			"of a container", without, onContainer, "spec.containers[0].securityContext.appArmorProfile: ",
			backend.ErrUnsupported,
		},
		{
			"of an init container", without, onInit, "spec.initContainers[1].securityContext.appArmorProfile: ",
			backend.ErrUnsupported,
		},
		{
			"a host that does not answer",
			kernel{err: backend.ErrUnavailable},
			onPod(corev1.AppArmorProfileTypeRuntimeDefault),
			"ask the host for AppArmor: ", backend.ErrUnavailable,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := testPod("u1")
			tt.change(&pod.Spec)
			err := (&remote{host: tt.kernel}).supports(t.Context(), pod, "")
			if tt.want == "" {
				must(t, err)
				return
			}
			wantClass(t, err, tt.class)
			if !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("%q does not begin with %q", err, tt.want)
			}
		})
	}
}

// TestContainersThatCannotBeConfigured: what is wrong with the container itself is
// of class Invalid, which users see as CreateContainerConfigError.
func TestContainersThatCannotBeConfigured(t *testing.T) {
	w := newWorld(t)
	r, _ := w.connect(t)
	pod := testPod("u1")
	pod.Spec.Volumes = []corev1.Volume{{
		Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	}}
	ref := runPod(t, r, pod)
	volume := r.convert.PodDir(pod.UID).Volume("scratch")
	must(t, os.MkdirAll(volume, 0o755))
	must(t, os.Symlink("/etc", filepath.Join(volume, "out")))
	must(t, os.WriteFile(filepath.Join(volume, "file"), nil, 0o600))
	for name, tt := range map[string]struct {
		change func(*corev1.Container)
		want   string
	}{
		"runAsNonRoot of a root image": {
			func(c *corev1.Container) { c.SecurityContext = &corev1.SecurityContext{RunAsNonRoot: new(true)} },
			"container has runAsNonRoot and image will run as root",
		},
		"a subPath that leads out of its volume": {
			func(c *corev1.Container) {
				c.VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch", SubPath: "out"}}
			},
			`failed to prepare subPath for a volumeMount of container "main": `,
		},
		"a subPath that leads through a file": {
			func(c *corev1.Container) {
				c.VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch", SubPath: "file/below"}}
			},
			`failed to prepare subPath for a volumeMount of container "main": `,
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := containerSpec(pod, "main", 0)
			tt.change(&spec.Container)
			err := containers{r}.Start(t.Context(), ref, spec)
			wantClass(t, err, backend.ErrInvalid)
			if err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%q does not say %q", err, tt.want)
			}
		})
	}
}
