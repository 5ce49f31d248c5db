package syncloop

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// meter takes a second for each measurement and counts them.
type meter struct {
	calls atomic.Int64
	err   error
	pods  atomic.Pointer[[]backend.PodStats]
}

func (m *meter) sees(names ...string) {
	var pods []backend.PodStats
	for _, name := range names {
		pods = append(
			pods, backend.PodStats{Ref: backend.Ref{UID: types.UID(name)}, Containers: []backend.ContainerStats{{Name: "c"}}},
		)
	}
	m.pods.Store(&pods)
}

func (m *meter) Stats(ctx context.Context) (backend.StatsFacts, error) {
	m.calls.Add(1)
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return backend.StatsFacts{}, ctx.Err()
	case <-timer.C:
	}
	var facts backend.StatsFacts
	if pods := m.pods.Load(); pods != nil {
		facts.Pods = *pods
	}
	return facts, m.err
}

// measuring is an engine of which nothing but Stats works.
func measuring(m *meter) *Loop {
	return &Loop{cfg: Config{Backend: backend.Backend{Name: "fake", Stats: m}}}
}

// runs makes the engine know a running container.
func (l *Loop) runs(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.workers == nil {
		l.workers = map[types.UID]*worker{}
	}
	f := backend.PodFacts{Ref: backend.Ref{UID: types.UID(name)}, Live: true}
	f.Containers = []backend.ContainerFacts{{Name: "c", StartedAt: time.Now()}}
	l.workers[f.UID] = &worker{facts: []backend.PodFacts{f}}
}

func TestStatsAreSharedAndNotTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meter{}
		l := measuring(m)
		expect := func(calls int64, maxAge time.Duration) {
			t.Helper()
			if _, err := l.Stats(t.Context(), maxAge); err != nil {
				t.Error(err)
			}
			if got := m.calls.Load(); got != calls {
				t.Errorf("%d measurements, want %d", got, calls)
			}
		}
		for range 5 {
			go expect(1, time.Second)
		}
		expect(1, time.Second)
		synctest.Wait()
		time.Sleep(8 * time.Second) // 9 s after its beginning
		expect(1, 10*time.Second)
		expect(2, 5*time.Second)
		expect(3, 0)
		time.Sleep(10 * time.Second)
		expect(4, 10*time.Second)
	})
}

// TestStatsCoverWhatRuns: whoever has just started is measured, whatever was
// measured before.
func TestStatsCoverWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meter{}
		l := measuring(m)
		get := func() int {
			t.Helper()
			facts, err := l.Stats(t.Context(), 10*time.Second)
			if err != nil {
				t.Error(err)
			}
			return len(facts.Pods)
		}
		get()
		l.runs("a")
		m.sees("a")
		if n := get(); n != 1 || m.calls.Load() != 2 {
			t.Errorf("%d pods after %d measurements, want 1 after 2", n, m.calls.Load())
		}
		if get(); m.calls.Load() != 2 {
			t.Errorf("measured again, although all that runs was measured")
		}
		time.Sleep(10 * time.Second)
		go get() // one that is under way when the next pod starts, and does not see it
		synctest.Wait()
		l.runs("b")
		time.AfterFunc(1500*time.Millisecond, func() { m.sees("a", "b") })
		if n := get(); n != 2 || m.calls.Load() != 4 {
			t.Errorf("%d pods after %d measurements, want 2 after 4", n, m.calls.Load())
		}
		l.runs("unmeasurable")
		if n := get(); n != 2 || m.calls.Load() != 5 {
			t.Errorf(
				"%d pods after %d measurements, want 2 after 5: one that cannot be measured is no reason to wait", n,
				m.calls.Load(),
			)
		}
	})
}

// TestStatsEndWithTheLastWhoWaits: a caller who gives up takes nothing from the
// others, and the last one ends the measurement.
func TestStatsEndWithTheLastWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meter{}
		l := measuring(m)
		first, give := context.WithCancel(t.Context())
		second, leave := context.WithCancel(t.Context())
		defer leave()
		ended := make(chan error, 2)
		go func() { _, err := l.Stats(first, time.Second); ended <- err }()
		synctest.Wait()
		go func() { _, err := l.Stats(second, time.Second); ended <- err }()
		synctest.Wait()
		give()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("who gave up got %v", err)
		}
		if err := <-ended; err != nil || m.calls.Load() != 1 {
			t.Errorf("who waited got %v after %d measurements", err, m.calls.Load())
		}
		time.Sleep(2 * time.Second)
		go func() { _, err := l.Stats(second, time.Second); ended <- err }()
		synctest.Wait()
		leave()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the last who gave up got %v", err)
		}
		synctest.Wait() // the bubble would not end with a measurement under way
		if _, err := l.Stats(t.Context(), time.Second); err != nil || m.calls.Load() != 3 {
			t.Errorf("after one that was given up: %v after %d measurements", err, m.calls.Load())
		}
	})
}

func TestStatsErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meter{err: backend.Errorf(backend.ErrThrottled, "slower")}
		l := measuring(m)
		if _, err := l.Stats(t.Context(), time.Minute); !errors.Is(err, backend.ErrThrottled) {
			t.Errorf("got %v, want the backend's error", err)
		}
		m.err = nil
		if _, err := l.Stats(t.Context(), time.Minute); err != nil {
			t.Errorf("a failure was remembered: %v", err)
		}
		l.cfg.Backend.Stats = nil
		if _, err := l.Stats(t.Context(), 0); !errors.Is(err, backend.ErrUnsupported) ||
			err.Error() != "the fake backend does not measure resource use" {
			t.Errorf("got %v, want Unsupported", err)
		}
	})
}

func TestLastLoop(t *testing.T) {
	l := &Loop{}
	if at := l.LastLoop(); !at.IsZero() {
		t.Errorf("before the first: %v", at)
	}
	l.tick()
	if age := time.Since(l.LastLoop()); age < 0 || age > time.Minute {
		t.Errorf("%v ago", age)
	}
}
