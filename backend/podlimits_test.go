package backend

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestWithPodLimits: a container without a limit has that of its pod, and no request by it.
func TestWithPodLimits(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		out := corev1.ResourceList{}
		for name, text := range map[corev1.ResourceName]string{"cpu": cpu, "memory": memory} {
			if text != "" {
				out[name] = resource.MustParse(text)
			}
		}
		return out
	}
	for name, tt := range map[string]struct {
		pod       corev1.ResourceList
		own, want corev1.ResourceRequirements
		same      bool
	}{
		"the pod has none": {nil, corev1.ResourceRequirements{Limits: list("1", "")}, corev1.ResourceRequirements{}, true},
		"the container has all": {
			list("2", "1Gi"), corev1.ResourceRequirements{Limits: list("1", "1Mi")}, corev1.ResourceRequirements{}, true,
		},
		"the container has none": {
			list("2", "1Gi"),
			corev1.ResourceRequirements{},
			corev1.ResourceRequirements{Requests: list("0", ""), Limits: list("2", "1Gi")},
			false,
		},
		"the container asks for some": {
			list("2", "1Gi"),
			corev1.ResourceRequirements{Requests: list("1", "1Mi")},
			corev1.ResourceRequirements{Requests: list("1", "1Mi"), Limits: list("2", "1Gi")},
			false,
		},
		"one of each": {
			list("2", "1Gi"),
			corev1.ResourceRequirements{Requests: list("1", ""), Limits: list("1", "")},
			corev1.ResourceRequirements{Requests: list("1", ""), Limits: list("1", "1Gi")},
			false,
		},
		"the pod limits memory alone": {
			list("", "1Gi"),
			corev1.ResourceRequirements{},
			corev1.ResourceRequirements{Limits: list("", "1Gi")},
			false,
		},
	} {
		pod, before := &corev1.Pod{}, tt.own.DeepCopy()
		if tt.pod != nil {
			pod.Spec.Resources = &corev1.ResourceRequirements{Limits: tt.pod}
		}
		got := WithPodLimits(pod, &tt.own)
		if (got == &tt.own) != tt.same {
			t.Errorf("%s: the container's own resources: %v, want %v", name, got == &tt.own, tt.same)
		}
		if diff := cmp.Diff(&tt.want, got); !tt.same && diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(before, &tt.own); diff != "" {
			t.Errorf("%s: the container was changed:\n%s", name, diff)
		}
	}
}
