package cri

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// A container is made and resized with what a kubelet tells the kernel about running
// out of memory and about swap.
func TestOutOfMemoryAndSwapAsAtTheKubelet(t *testing.T) {
	const limit = 64 << 20
	type told struct {
		Unified map[string]string
		Swap    int64
	}
	for name, tt := range map[string]struct {
		v2, swap bool
		limit    string
		want     told
	}{
		"version 2": {
			true, true, "- 64Mi", told{Unified: map[string]string{"memory.oom.group": "1", "memory.swap.max": "0"}},
		},
		"version 2 without a limit": {
			true, true, "- -", told{Unified: map[string]string{"memory.oom.group": "1", "memory.swap.max": "0"}},
		},
		"version 2, no swap limits": {true, false, "- 64Mi", told{Unified: map[string]string{"memory.oom.group": "1"}}},
		"version 1":                 {false, true, "- 64Mi", told{Swap: limit}},
		"version 1 without a limit": {false, true, "- -", told{}},
		"version 1, no swap limits": {false, false, "- 64Mi", told{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.host.(*withoutCgroups).facts = func(f *host.Facts) { f.CgroupV2, f.SwapLimits = tt.v2, tt.swap }
			r, _ := w.connect(t)
			pod := testPod("u1")
			pod.Spec.Containers[0].Resources = resources("- -", tt.limit)
			spec := containerSpec(pod, "main", 0)
			spec.Container = pod.Spec.Containers[0]
			must(t, pods{r}.Launch(t.Context(), t.Context(), launchSpec(pod, 0)))
			ref := backend.Ref{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}
			must(t, containers{r}.Start(t.Context(), ref, spec))
			check := func(when string) {
				_, config := w.fake.Container("main")
				got := told{
					Unified: config.GetLinux().GetResources().GetUnified(),
					Swap:    config.GetLinux().GetResources().GetMemorySwapLimitInBytes(),
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s: %s", when, diff)
				}
			}
			check("made")
			must(t, resizer{r}.Resize(t.Context(), backend.ContainerRef{Pod: ref, Name: "main"}, spec))
			check("resized")
		})
	}
}
