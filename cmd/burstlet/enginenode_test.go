package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/provider"
	"github.com/burstlet/burstlet/syncloop/admit"
)

// What pods are judged by is what the remote says of itself.
func TestEngineNode(t *testing.T) {
	now := provider.Current{
		Labels: map[string]string{"team": "blue"}, Allocatable: corev1.ResourceList{"cpu": resource.MustParse("2"), "pods": resource.MustParse("2")},
	}
	node, err := engineNode(config.Configuration{}, backend.Backend{}, func() provider.Current { return now })
	if err != nil {
		t.Fatal(err)
	}
	if n := node(); n.Admission.Allocatable != nil || n.Cluster.Allocatable == nil {
		t.Errorf("before the remote has described itself pods are judged by %v, and learn %v",
			n.Admission.Allocatable, n.Cluster.Allocatable)
	}
	now.Described, now.OS, now.Kernel = true, "linux", "6.1"
	strict := corev1.SupplementalGroupsPolicyStrict
	pod := &corev1.Pod{Spec: corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{SupplementalGroupsPolicy: &strict}}}
	for can, want := range map[bool]string{true: "", false: admit.ReasonSupplementalGroupsPolicyNotSupported} {
		now.SupplementalGroupsPolicy = can
		got := ""
		if r := admit.Decide(pod, node().Admission, nil, nil); r != nil {
			got = r.Reason
		}
		if got != want {
			t.Errorf("a pod that is strict about groups, on a remote that can be (%t): %q, want %q", can, got, want)
		}
	}
}
