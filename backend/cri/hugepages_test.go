package cri

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// What a node offers of huge pages, and of the memory beside them (kubelet:
// cadvisor.CapacityFromMachineInfo, nodestatus.MachineInfo).
func TestHugePagesOfANode(t *testing.T) {
	w := newWorld(t)
	w.cfg.Reserved = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Mi")}
	w.access.host.(*withoutCgroups).facts = func(f *host.Facts) {
		f.HugePages = map[int64]int64{64 << 10: 0, 2 << 20: 8 << 20, 1 << 30: 1 << 30}
	}
	r, _ := w.connect(t)
	f, err := node{r}.Describe(t.Context())
	must(t, err)
	for name, want := range map[corev1.ResourceName]string{
		"hugepages-64Ki": "0", "hugepages-2Mi": "8Mi", "hugepages-1Gi": "1Gi",
	} {
		if got, ok := f.Capacity[name]; !ok || got.String() != want {
			t.Errorf("%s: %s, want %s", name, &got, want)
		}
	}
	if got := f.Reserved.Memory(); got.Value() != 1<<30+9<<20 {
		t.Errorf("of the memory %s are kept from pods, want what is reserved and the huge pages", got)
	}
	if r.cfg.Reserved.Memory().Value() != 1<<20 {
		t.Error("the configuration has changed")
	}
}
