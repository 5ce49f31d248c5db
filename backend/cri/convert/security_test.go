package convert

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend/cri/criconfig"
)

// What a container names goes before what its pod names, and both before the node's seccompDefault.
func TestSeccomp(t *testing.T) {
	profile := func(kind corev1.SeccompProfileType) *corev1.SeccompProfile {
		p := &corev1.SeccompProfile{Type: kind}
		if kind == corev1.SeccompProfileTypeLocalhost {
			p.LocalhostProfile = new("p.json")
		}
		return p
	}
	unconfined := &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}
	runtimes := &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}
	hosts := &runtimeapi.SecurityProfile{
		ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: "/profiles/p.json",
	}
	for _, tt := range []struct {
		name           string
		pod, container *corev1.SeccompProfile
		// without and with are what the runtime is told without seccompDefault and with it.
		without, with *runtimeapi.SecurityProfile
	}{
		{"none", nil, nil, unconfined, runtimes},
		{"RuntimeDefault of the pod", profile(corev1.SeccompProfileTypeRuntimeDefault), nil, runtimes, runtimes},
		{"Unconfined of the pod", profile(corev1.SeccompProfileTypeUnconfined), nil, unconfined, unconfined},
		{"Unconfined of the container", nil, profile(corev1.SeccompProfileTypeUnconfined), unconfined, unconfined},
		{"Localhost", nil, profile(corev1.SeccompProfileTypeLocalhost), hosts, hosts},
		{
			"the container's before the pod's", profile(corev1.SeccompProfileTypeUnconfined),
			profile(corev1.SeccompProfileTypeRuntimeDefault), runtimes, runtimes,
		},
	} {
		pod := &corev1.Pod{}
		if tt.pod != nil {
			pod.Spec.SecurityContext = &corev1.PodSecurityContext{SeccompProfile: tt.pod}
		}
		c := &corev1.Container{}
		if tt.container != nil {
			c.SecurityContext = &corev1.SecurityContext{SeccompProfile: tt.container}
		}
		for byDefault, want := range map[bool]*runtimeapi.SecurityProfile{false: tt.without, true: tt.with} {
			cfg := criconfig.Config{SeccompProfileRoot: "/profiles", SeccompDefault: byDefault}
			got := containerSecurity(pod, c, ImageUser{}, cfg).Seccomp
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("%s, seccompDefault %v (-want +got):\n%s", tt.name, byDefault, diff)
			}
		}
	}
}
