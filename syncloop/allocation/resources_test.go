package allocation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// What the kernel cannot tell apart needs no resize.
func TestAmountsThatTheKernelCannotTellApart(t *testing.T) {
	for _, tt := range []struct {
		name   string
		amount Amount
		a, b   string
		near   bool
	}{
		{"requests of the least shares", Amount{false, corev1.ResourceCPU}, "1m", "2m", true},
		{"requests of other shares", Amount{false, corev1.ResourceCPU}, "2m", "3m", false},
		{"requests beyond the most shares, which a node must have", Amount{false, corev1.ResourceCPU}, "256", "300", false},
		{"limits of the least quota", Amount{true, corev1.ResourceCPU}, "1m", "10m", true},
		{"limits of another quota", Amount{true, corev1.ResourceCPU}, "10m", "11m", false},
		{"limits of a page", Amount{true, corev1.ResourceMemory}, "4096", "8191", true},
		{"limits of two pages", Amount{true, corev1.ResourceMemory}, "4095", "4096", false},
		{"requests of memory, which nothing enforces", Amount{false, corev1.ResourceMemory}, "4096", "4097", false},
	} {
		if got := tt.amount.near(resource.MustParse(tt.a), resource.MustParse(tt.b)); got != tt.near {
			t.Errorf("%s: %s and %s are near: %v", tt.name, tt.a, tt.b, got)
		}
	}
}

// What a container has of its pod's limits is not its own.
func TestOwn(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
	}
	allocated := &corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}}
	if got := Own(allocated, allocated); got != allocated {
		t.Errorf("held to what it is allocated: %v", got)
	}
	ofThePod := &corev1.ResourceRequirements{Requests: list("0", "0"), Limits: list("1", "1Gi")}
	if got := Own(ofThePod, allocated); got != allocated {
		t.Errorf("the rest is the pod's: %v", got)
	}
	held := &corev1.ResourceRequirements{Limits: list("2", "1Gi")}
	got := Own(held, allocated)
	if _, memory := got.Limits[corev1.ResourceMemory]; memory || got.Limits.Cpu().String() != "2" {
		t.Errorf("held to another limit of its own: %v", got)
	}
	if held.Limits.Memory().String() != "1Gi" {
		t.Errorf("what it is held to was changed: %v", held)
	}
}
