package stopper_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/stopper"
)

// fakeStops is a runtime of containers that ignore TERM, in virtual time.
type fakeStops struct {
	mu      sync.Mutex
	calls   []int64
	killed  map[string]time.Time
	ended   map[string]chan struct{}
	boxes   []string
	failing bool
	// frozen is true while nothing may be changed.
	frozen atomic.Bool
	// boxTakes is how long the stop of a sandbox takes.
	boxTakes time.Duration
}

func newFakeStops(ids ...string) *fakeStops {
	f := &fakeStops{killed: map[string]time.Time{}, ended: map[string]chan struct{}{}}
	for _, id := range ids {
		f.ended[id] = make(chan struct{})
	}
	return f
}

func (f *fakeStops) may(change string) error {
	if f.frozen.Load() {
		return backend.Errorf(backend.ErrThrottled, "%s: not now", change)
	}
	return nil
}

func (f *fakeStops) StopContainer(ctx context.Context, id string, seconds int64) error {
	f.mu.Lock()
	f.calls = append(f.calls, seconds)
	failing := f.failing
	f.mu.Unlock()
	if failing {
		return errors.New("shim is gone")
	}
	timeout := time.NewTimer(time.Duration(seconds) * time.Second)
	defer timeout.Stop()
	select {
	case <-f.ended[id]:
	case <-timeout.C:
		f.kill(id)
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func (f *fakeStops) kill(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, dead := f.killed[id]; !dead {
		f.killed[id] = time.Now()
		close(f.ended[id])
	}
}

func (f *fakeStops) StopSandbox(ctx context.Context, id string) error {
	if f.boxTakes > 0 {
		select {
		case <-time.After(f.boxTakes):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.boxes = append(f.boxes, id)
	return nil
}

// seen is what has happened so far.
func (f *fakeStops) seen() (calls []int64, killed map[string]time.Time, boxes []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls), maps.Clone(f.killed), slices.Clone(f.boxes)
}

// withStopper runs a stopper in a bubble of virtual time, with the containers
// named, and returns what became of them.
func withStopper(t *testing.T, ids []string, test func(t *testing.T, s *stopper.Stopper, fake *fakeStops)) *fakeStops {
	t.Helper()
	var fake *fakeStops
	synctest.Test(t, func(t *testing.T) {
		fake = newFakeStops(ids...)
		s := stopper.New(fake)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx, fake.may) }()
		test(t, s, fake)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := s.Stop(t.Context(), stopper.Request{}); !errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("after its end: %v", err)
		}
	})
	return fake
}

// TestStopperAsksFirst: a sandbox whose turn comes when nothing may be changed any more
// is left alone, and so is a container.
func TestStopperAsksFirst(t *testing.T) {
	withStopper(t, []string{"a", "b"}, func(t *testing.T, s *stopper.Stopper, fake *fakeStops) {
		must(t, s.Stop(t.Context(), stopper.Request{Sandbox: "box", Containers: []string{"a"}, Grace: time.Minute}))
		<-time.After(time.Second)
		fake.frozen.Store(true)
		<-fake.ended["a"]
		must(t, s.Stop(t.Context(), stopper.Request{Containers: []string{"b"}}))
		<-time.After(time.Minute)
		calls, killed, boxes := fake.seen()
		if len(calls) != 1 || !killed["b"].IsZero() || len(boxes) > 0 {
			t.Errorf("stop calls %v, sandboxes stopped: %v, killed %v", calls, boxes, killed)
		}
		fake.frozen.Store(false)
		must(t, s.Stop(t.Context(), stopper.Request{Sandbox: "box"}))
		<-time.After(time.Minute)
		if _, _, boxes := fake.seen(); !slices.Equal(boxes, []string{"box"}) {
			t.Errorf("sandboxes stopped: %v, want the one that is asked for again", boxes)
		}
	})
}

func TestStopperGrace(t *testing.T) {
	ask := func(t *testing.T, s *stopper.Stopper, grace time.Duration) {
		t.Helper()
		must(t, s.Stop(t.Context(), stopper.Request{Sandbox: "box", Containers: []string{"a"}, Grace: grace}))
	}
	for _, tt := range []struct {
		name  string
		asks  []time.Duration // one every three seconds
		kill  time.Duration
		calls []int64
	}{
		{"once", []time.Duration{30 * time.Second}, 30 * time.Second, []int64{30}},
		{"now", []time.Duration{0}, 0, []int64{0}},
		{"rounded up", []time.Duration{1500 * time.Millisecond}, 2 * time.Second, []int64{2}},
		{
			"what is left", []time.Duration{30 * time.Second, 27 * time.Second, 24 * time.Second}, 30 * time.Second, []int64{30},
		},
		{
			"what is left, not quite",
			[]time.Duration{30 * time.Second, 26900 * time.Millisecond},
			30 * time.Second,
			[]int64{30},
		},
		{"shorter", []time.Duration{30 * time.Second, 5 * time.Second}, 8 * time.Second, []int64{30, 5}},
		{
			"shorter, then longer",
			[]time.Duration{30 * time.Second, 5 * time.Second, time.Minute},
			8 * time.Second,
			[]int64{30, 5},
		},
		{"longer", []time.Duration{5 * time.Second, time.Minute}, 5 * time.Second, []int64{5}},
		{"ever shorter", []time.Duration{time.Minute, 30 * time.Second, 0}, 6 * time.Second, []int64{60, 30, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withStopper(t, []string{"a"}, func(t *testing.T, s *stopper.Stopper, fake *fakeStops) {
				begun := time.Now()
				for i, grace := range tt.asks {
					if i > 0 {
						<-time.After(3 * time.Second)
					}
					ask(t, s, grace)
				}
				<-fake.ended["a"]
				synctest.Wait()
				calls, killed, boxes := fake.seen()
				if got := killed["a"].Sub(begun); got != tt.kill {
					t.Errorf("killed after %v, want %v", got, tt.kill)
				}
				if !slices.Equal(calls, tt.calls) {
					t.Errorf("stop calls %v, want %v", calls, tt.calls)
				}
				if !slices.Equal(boxes, []string{"box"}) {
					t.Errorf("sandboxes stopped: %v, want the one, once", boxes)
				}
			})
		})
	}
}

func TestStopperSandboxWaitsForAll(t *testing.T) {
	withStopper(t, []string{"a", "b"}, func(t *testing.T, s *stopper.Stopper, fake *fakeStops) {
		must(t, s.Stop(t.Context(), stopper.Request{Containers: []string{"a"}, Grace: 10 * time.Second}))
		must(t, s.Stop(t.Context(), stopper.Request{Sandbox: "box", Containers: []string{"a", "b"}, Grace: 20 * time.Second}))
		<-time.After(15 * time.Second)
		synctest.Wait()
		if _, killed, boxes := fake.seen(); len(boxes) != 0 || killed["a"].IsZero() || !killed["b"].IsZero() {
			t.Errorf("after 15 s: sandboxes %v stopped, containers %v killed", boxes, killed)
		}
		<-time.After(6 * time.Second)
		synctest.Wait()
		if _, _, boxes := fake.seen(); !slices.Equal(boxes, []string{"box"}) {
			t.Errorf("sandboxes stopped: %v", boxes)
		}
	})
}

func TestStopperAfterAFailure(t *testing.T) {
	withStopper(t, []string{"a"}, func(t *testing.T, s *stopper.Stopper, fake *fakeStops) {
		fake.failing = true
		job := stopper.Request{Sandbox: "box", Containers: []string{"a"}, Grace: 10 * time.Second}
		must(t, s.Stop(t.Context(), job))
		synctest.Wait()
		if _, _, boxes := fake.seen(); len(boxes) != 0 {
			t.Error("the sandbox was stopped within the grace of its container")
		}
		fake.mu.Lock()
		fake.failing = false
		fake.mu.Unlock()
		must(t, s.Stop(t.Context(), job))
		<-time.After(11 * time.Second)
		synctest.Wait()
		if calls, _, boxes := fake.seen(); !slices.Equal(calls, []int64{10, 10}) || !slices.Equal(boxes, []string{"box"}) {
			t.Errorf("calls %v, sandboxes %v", calls, boxes)
		}
	})
}

// TestStopperLeavesASandbox: to who removes it, at any moment; no call is open then.
func TestStopperLeavesASandbox(t *testing.T) {
	for name, tt := range map[string]struct {
		after time.Duration // from the stop, whose container ends after 2 s
		boxes []string
	}{
		"while its container runs":  {time.Second, nil},
		"before its stop":           {2500 * time.Millisecond, nil},
		"after its stop":            {4 * time.Second, []string{"box"}},
		"in the middle of its stop": {3100 * time.Millisecond, []string{"box"}},
		"twice":                     {0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			withStopper(t, []string{"a"}, func(t *testing.T, s *stopper.Stopper, fake *fakeStops) {
				fake.boxTakes = 500 * time.Millisecond
				job := stopper.Request{Sandbox: "box", Containers: []string{"a"}, Removable: true, Grace: 2 * time.Second}
				must(t, s.Stop(t.Context(), job))
				<-time.After(tt.after)
				must(t, s.Leave(t.Context(), "box"))
				if _, _, boxes := fake.seen(); !slices.Equal(boxes, tt.boxes) {
					t.Errorf("sandboxes stopped: %v, want %v", boxes, tt.boxes)
				}
				must(t, s.Leave(t.Context(), "box"))
				<-time.After(time.Minute)
				if _, killed, boxes := fake.seen(); !slices.Equal(boxes, tt.boxes) || killed["a"].IsZero() {
					t.Errorf("in the end: sandboxes stopped %v, want %v; killed %v", boxes, tt.boxes, killed)
				}
			})
		})
	}
}

func TestStopperEndsWithOpenCalls(t *testing.T) {
	fake := withStopper(t, []string{"a"}, func(t *testing.T, s *stopper.Stopper, _ *fakeStops) {
		must(t, s.Stop(t.Context(), stopper.Request{Containers: []string{"a"}, Grace: time.Hour}))
		synctest.Wait()
	})
	if !fake.killed["a"].IsZero() {
		t.Error("the container was killed at shutdown")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
