package backendtest_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/backendtest"
	"github.com/burstlet/burstlet/backend/fault"
	"github.com/burstlet/burstlet/backend/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What the simulation lends of pods as units, and of containers.
var (
	simLendsOfPods = []string{"Exec", "Attach", "Logs", "Dial", "Forward", "Stats", "Events"}
	simLends       = append(
		[]string{"Containers", "Resize", "Images", "Store", "PullRecords", "Files", "Signals", "Shutdown", "SystemOOMs"},
		simLendsOfPods...,
	)
)

// TestRunIsRun passes the suite with a backend that answers only while its Run
// runs, and shows that every connection was ended.
func TestRunIsRun(t *testing.T) {
	var running atomic.Int64
	backendtest.Run(t, backendtest.Factory{
		New: func(*testing.T) func() backend.Backend {
			r := sim.New(sim.Config{})
			return func() backend.Backend { return whileRunning(r.Backend(), &running) }
		},
		Lends:  append(slices.Clone(simLends), "Run"),
		Around: synctest.Test,
		Image:  "busybox", MissingImage: "missing",
	})
	if n := running.Load(); n != 0 {
		t.Errorf("%d connections were left running", n)
	}
}

// TestMaxApps passes the suite with a remote that takes one app container a pod.
func TestMaxApps(t *testing.T) {
	for name, lends := range map[string][]string{"pod": simLendsOfPods, "containers": simLends} {
		t.Run(name, func(t *testing.T) {
			backendtest.Run(t, backendtest.Factory{
				New: func(*testing.T) func() backend.Backend {
					b := sim.New(sim.Config{PodUnit: name == "pod"}).Backend()
					b.Pods = single{b.Pods}
					return func() backend.Backend { return b }
				},
				Lends:  lends,
				Around: synctest.Test,
				Image:  "busybox", MissingImage: "missing",
				MaxApps: 1,
			})
		})
	}
}

// single refuses pods of several app containers.
type single struct{ backend.Pods }

func (p single) Launch(ctx, wanted context.Context, spec backend.LaunchSpec) error {
	if len(spec.Pod.Spec.Containers) > 1 {
		return backend.Errorf(backend.ErrUnsupported, "one app container is all there can be")
	}
	return p.Pods.Launch(ctx, wanted, spec)
}

func whileRunning(b backend.Backend, running *atomic.Int64) backend.Backend {
	var up atomic.Bool
	b = fault.Wrap(b, &fault.Script{Decide: func(fault.Call) (f fault.Fault) {
		if !up.Load() {
			f.Err = backend.Errorf(backend.ErrUnavailable, "not connected")
		}
		return f
	}})
	b.Run = func(ctx context.Context, _ backend.Permit) error {
		running.Add(1)
		defer running.Add(-1)
		up.Store(true)
		defer up.Store(false)
		<-ctx.Done()
		return ctx.Err()
	}
	return b
}
