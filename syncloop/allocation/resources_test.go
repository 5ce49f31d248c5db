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
