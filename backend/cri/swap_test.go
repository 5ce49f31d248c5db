package cri

import (
	"testing"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/criconfig"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// A resize keeps a container's share of the swap up to date.
func TestSwapOfAResizedContainer(t *testing.T) {
	w := newWorld(t)
	w.cfg.SwapBehavior = criconfig.LimitedSwap
	w.host.(*withoutCgroups).facts = func(f *host.Facts) {
		f.CgroupV2, f.SwapLimits, f.Memory, f.Swap = true, true, 1<<30, 2<<30
	}
	r, _ := w.connect(t)
	pod := testPod("u1")
	pod.Spec.Containers[0].Resources = resources("- 64Mi", "- -")
	spec := containerSpec(pod, "main", 0)
	spec.Container = pod.Spec.Containers[0]
	must(t, pods{r}.Launch(t.Context(), t.Context(), launchSpec(pod, 0)))
	must(t, containers{r}.Start(t.Context(), launchSpec(pod, 0).Ref(), spec))
	spec.Container.Resources = resources("- 128Mi", "- -")
	must(t, resizer{r}.Resize(t.Context(), backend.ContainerRef{Pod: launchSpec(pod, 0).Ref(), Name: "main"}, spec))
	_, config := w.fake.Container("main")
	if got := config.GetLinux().GetResources().GetUnified()["memory.swap.max"]; got != "268435456" {
		t.Errorf("memory.swap.max is %s after the resize", got)
	}
}

// A node with LimitedSwap is not ready on a host that cannot limit swap.
func TestLimitedSwapNeedsTheHost(t *testing.T) {
	for name, tt := range map[string]struct {
		behavior string
		facts    host.Facts
		refused  bool
	}{
		"version 2":                 {criconfig.LimitedSwap, host.Facts{CgroupV2: true, SwapLimits: true, Swap: 1}, false},
		"version 2 without limits":  {criconfig.LimitedSwap, host.Facts{CgroupV2: true, Swap: 1}, true},
		"version 2 without swap":    {criconfig.LimitedSwap, host.Facts{CgroupV2: true}, false},
		"version 1":                 {criconfig.LimitedSwap, host.Facts{SwapLimits: true, Swap: 1}, true},
		"version 1 without swap":    {criconfig.LimitedSwap, host.Facts{}, true},
		"NoSwap on version 1":       {criconfig.NoSwap, host.Facts{Swap: 1}, false},
		"the default, on version 1": {"", host.Facts{Swap: 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.cfg.SwapBehavior = tt.behavior
			w.host.(*withoutCgroups).facts = func(f *host.Facts) {
				f.CgroupV2, f.SwapLimits, f.Swap = tt.facts.CgroupV2, tt.facts.SwapLimits, tt.facts.Swap
			}
			r, _ := w.connect(t)
			_, err := node{r}.Describe(t.Context())
			if !tt.refused {
				must(t, err)
				return
			}
			wantClass(t, err, backend.ErrUnsupported)
		})
	}
}
