package sim_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
)

// TestSignals: what pods use the host has no longer; what is squeezed out of it, too. A
// task has no host to share.
func TestSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := sim.New(sim.Config{ImageDisk: 1000, ImageSize: func(string) uint64 { return 300 }})
		b := r.Backend()
		before, err := b.Signals.Signals(t.Context())
		must(t, err)
		must(t, b.Pods.Launch(t.Context(), t.Context(), spec("u", 0)))
		_, err = b.Images.Pull(t.Context(), "busybox", nil)
		must(t, err)
		c := needing(container("a", "sleep", "infinity"), amounts("1", "64Mi"), nil)
		must(t, b.Containers.Start(t.Context(), backend.Ref{UID: "u"}, c))
		time.Sleep(time.Second)
		after, err := b.Signals.Signals(t.Context())
		must(t, err)
		if used := before.Memory.Available - after.Memory.Available; used == 0 || used != *after.PodsMemory {
			t.Errorf("%d bytes of memory are gone, pods use %d", used, *after.PodsMemory)
		}
		if diff := cmp.Diff(&backend.Level{Available: 700, Capacity: 1000}, after.ImageFS); diff != "" {
			t.Errorf("images: %s", diff)
		}
		if before.PIDs.Available != after.PIDs.Available+1 {
			t.Errorf("processes: %+v, then %+v", before.PIDs, after.PIDs)
		}
		r.Squeeze(func(f *backend.SignalFacts) { f.NodeFS.Available = 7 })
		squeezed, err := b.Signals.Signals(t.Context())
		must(t, err)
		if squeezed.NodeFS.Available != 7 || *squeezed.Memory != *after.Memory {
			t.Errorf("squeezed to %+v, %+v", squeezed.NodeFS, squeezed.Memory)
		}
		if sim.New(sim.Config{PodUnit: true}).Backend().Signals != nil {
			t.Error("a task shares no host")
		}
	})
}
