package features

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
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
			pod := fakecri.Pod("u1")
			tt.change(&pod.Spec)
			err := New(nil, tt.kernel, "").Supports(t.Context(), pod, "")
			if !errors.Is(err, tt.class) {
				t.Fatalf("error %v of class %q, want %q", err, backend.Class(err), backend.Class(tt.class))
			}
			if err == nil {
				return
			}
			if !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("%q does not begin with %q", err, tt.want)
			}
		})
	}
}
