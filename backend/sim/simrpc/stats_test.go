package simrpc

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/backend"
)

type farStats struct{ f *far }

func (s farStats) Stats(context.Context) (backend.StatsFacts, error) {
	return s.f.stats, s.f.ask("stats")
}

// numbers fills what fill cannot: every number is another.
func numbers(u *backend.Usage) {
	n := uint64(1)
	v := reflect.ValueOf(u).Elem()
	for i := range v.NumField() {
		if p, ok := v.Field(i).Addr().Interface().(**uint64); ok {
			n++
			*p = new(n << 40)
		}
	}
	fs := func() *backend.FilesystemUsage {
		n += 6
		return &backend.FilesystemUsage{
			Available: new(n), Capacity: new(n + 1), Used: new(n + 2), InodesFree: new(n + 3), Inodes: new(n + 4),
			InodesUsed: new(n + 5),
		}
	}
	u.Time, u.StartTime = time.Unix(1700000001, 123456789), time.Unix(1700000000, 1)
	u.Rootfs, u.Logs, u.EphemeralStorage = fs(), fs(), fs()
	u.Network = []backend.InterfaceUsage{
		{Name: "eth0", RxBytes: new(n), RxErrors: new(n + 1), TxBytes: new(n + 2), TxErrors: new(n + 3)}, {},
	}
}

// TestStatsArriveWhole: each field is the same at the other side, and nothing
// stays nothing.
func TestStatsArriveWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full backend.StatsFacts
		full.Node = &backend.Usage{}
		numbers(full.Node)
		p := backend.PodStats{Ref: fullOf[backend.Ref](t), Containers: []backend.ContainerStats{{Name: "c", Attempt: 3}, {}}}
		numbers(&p.Usage)
		numbers(&p.Containers[0].Usage)
		p.Volumes = map[string]backend.FilesystemUsage{"v": *p.Logs, "empty": {}}
		full.Pods, full.Images = []backend.PodStats{p, {}}, p.Rootfs
		for name, want := range map[string]backend.StatsFacts{"full": full, "empty": {}} {
			f := &far{stats: want}
			b := serve(t, f.backend).running("node")
			got, err := b.Stats.Stats(t.Context())
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
			}
		}
	})
}

// TestStatsErrors: classes pass.
func TestStatsErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{err: backend.Errorf(backend.ErrThrottled, "too much")}
		b := serve(t, f.backend).running("node")
		if _, err := b.Stats.Stats(t.Context()); backend.Class(err) != "Throttled" || err.Error() != "too much" {
			t.Errorf("class %q: %v", backend.Class(err), err)
		}
	})
}
