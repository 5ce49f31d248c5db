package allocation

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend"
)

// requirements are requests that are limits: cpu, memory.
func requirements(cpu, memory string) corev1.ResourceRequirements {
	list := corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
	return corev1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}
}

// TestRecoverAllocation reads as what is known after a restart of what a pod was
// allocated.
func TestRecoverAllocation(t *testing.T) {
	status := func(allocated, held string, limit string) *corev1.ContainerStatus {
		r := requirements(held, "64Mi")
		r.Limits["cpu"] = resource.MustParse(limit)
		return &corev1.ContainerStatus{Name: "a", Resources: &r, AllocatedResources: requirements(allocated, "64Mi").Requests}
	}
	for _, tt := range []struct {
		name      string
		spec      string
		s         *corev1.ContainerStatus
		facts     string
		cannot    bool
		allocated string
		limit     string
		held      string
	}{
		{name: "nothing told: the spec", spec: "2", allocated: "2", limit: "2", held: "2"},
		{name: "as the spec says", spec: "2", s: status("2", "2", "2"), allocated: "2", limit: "2", held: "2"},
		{
			name: "a change was not allocated", spec: "4", s: status("2", "2", "2"), facts: "2", allocated: "2", limit: "2",
			held: "2",
		},
		{
			name: "allocated and not done: limits are the spec's", spec: "4", s: status("4", "2", "2"), facts: "2",
			allocated: "4", limit: "4", held: "4",
		},
		{
			name: "the remote cannot: limits stay", spec: "2", s: status("2", "2", "1"), cannot: true, allocated: "2",
			limit: "1", held: "2",
		},
		{
			name: "shrinks, and holds the larger until it has", spec: "1", s: status("1", "4", "4"), facts: "4", allocated: "1",
			limit: "1", held: "4",
		},
		{
			name: "the remote was resized, and the status is lost", spec: "8", s: status("2", "2", "2"), facts: "4",
			allocated: "4", limit: "4", held: "4",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
				{Name: "a", Resources: requirements(tt.spec, "64Mi")},
			}}}
			if tt.s != nil {
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{*tt.s}
			}
			var facts []backend.PodFacts
			if tt.facts != "" {
				held := requirements(tt.facts, "64Mi")
				facts = []backend.PodFacts{{Live: true, Containers: []backend.ContainerFacts{
					{Name: "a", StartedAt: time.Unix(1, 0), Resources: &held},
				}}}
			}
			allocated, held := Recover(pod, facts, !tt.cannot)
			r := allocated.Spec.Containers[0].Resources
			if r.Requests.Cpu().String() != tt.allocated || r.Limits.Cpu().String() != tt.limit {
				t.Errorf("allocated %v, limit %v", r.Requests.Cpu(), r.Limits.Cpu())
			}
			if got := held.Spec.Containers[0].Resources.Requests.Cpu().String(); got != tt.held {
				t.Errorf("holds %s, want %s", got, tt.held)
			}
			if pod.Spec.Containers[0].Resources.Requests.Cpu().String() != tt.spec {
				t.Error("the pod itself was changed")
			}
		})
	}
}
