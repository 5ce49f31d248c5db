package syncloop

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// statsTimeout bounds one measurement, as that of a caller without a deadline.
const statsTimeout = 30 * time.Second

// Stats returns what the pods and their host use, not measured earlier than maxAge
// ago. It is only to be read: callers at the same time share one measurement. An
// earlier one serves while every container that is known to run is in it: a pod
// that has just started is never missing because somebody asked before. Errors:
// Unsupported where the backend cannot measure, else the backend's own.
func (l *Loop) Stats(ctx context.Context, maxAge time.Duration) (backend.StatsFacts, error) {
	source := l.cfg.Backend.Stats
	if source == nil {
		return backend.StatsFacts{}, backend.Errorf(
			backend.ErrUnsupported, "the %s backend does not measure resource use", l.cfg.Backend.Name,
		)
	}
	facts, err := l.stats.get(ctx, source, maxAge, l.runningContainers)
	if err != nil {
		return backend.StatsFacts{}, fmt.Errorf("measure resource use: %w", err)
	}
	return facts, nil
}

// LastLoop is when the loop last turned, at least every few seconds; zero if it
// has not begun.
func (l *Loop) LastLoop() time.Time {
	if at := l.looped.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// tick notes that the loop is alive.
func (l *Loop) tick() { l.looped.Store(new(time.Now())) }

// containerKey names one attempt of a container.
type containerKey struct {
	uid     types.UID
	name    string
	attempt int
}

// runningContainers are those that are known to run, as the workers know it.
func (l *Loop) runningContainers() []containerKey {
	var out []containerKey
	for _, w := range l.all() {
		_, _, facts := w.snapshot()
		for i := range facts {
			for j := range facts[i].Containers {
				if c := &facts[i].Containers[j]; facts[i].Live && c.State() == backend.Running {
					out = append(out, containerKey{facts[i].UID, c.Name, c.Attempt})
				}
			}
		}
	}
	return out
}

// statsCache shares measurements. The zero value is ready.
type statsCache struct {
	mu     sync.Mutex
	last   backend.StatsFacts
	begun  time.Time // when last was begun; zero if there is none
	flight *measurement
}

// measurement is one under way, for as long as somebody waits for it.
type measurement struct {
	done    chan struct{}
	waiting int
	cancel  context.CancelFunc
	// Set before done is closed.
	facts backend.StatsFacts
	err   error
}

// get returns a measurement that is young enough and covers what runs.
func (s *statsCache) get(ctx context.Context, source backend.Stats, maxAge time.Duration, running func() []containerKey,
) (backend.StatsFacts, error) {
	want := running() // before the lock: it asks every worker
	for round := 0; ; round++ {
		s.mu.Lock()
		if !s.begun.IsZero() && time.Since(s.begun) < maxAge && covers(&s.last, want) {
			defer s.mu.Unlock()
			return s.last, nil
		}
		m, began := s.join(ctx, source)
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			s.leave(m)
			return backend.StatsFacts{}, ctx.Err()
		case <-m.done:
		}
		// One that was under way may be from before a container's start; the one
		// after it is not.
		if m.err != nil || began || round > 0 || covers(&m.facts, want) {
			return m.facts, m.err
		}
	}
}

// join waits with those who wait, or begins a measurement. It does not end with
// the caller who began it, but with the last who waits.
func (s *statsCache) join(ctx context.Context, source backend.Stats) (m *measurement, began bool) {
	if m := s.flight; m != nil {
		m.waiting++
		return m, false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statsTimeout)
	m = &measurement{done: make(chan struct{}), waiting: 1, cancel: cancel}
	s.flight = m
	go s.measure(ctx, m, source)
	return m, true
}

func (s *statsCache) measure(ctx context.Context, m *measurement, source backend.Stats) {
	defer m.cancel()
	begun := time.Now()
	m.facts, m.err = source.Stats(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.err == nil {
		s.last, s.begun = m.facts, begun
	}
	if s.flight == m {
		s.flight = nil
	}
	close(m.done)
}

func (s *statsCache) leave(m *measurement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.waiting--; m.waiting > 0 {
		return
	}
	m.cancel()
	if s.flight == m {
		s.flight = nil // nobody else shall join what is being given up
	}
}

// covers is true when every container that runs was measured.
func covers(facts *backend.StatsFacts, running []containerKey) bool {
	measured := make(map[containerKey]bool, len(running))
	for i := range facts.Pods {
		for _, c := range facts.Pods[i].Containers {
			measured[containerKey{facts.Pods[i].UID, c.Name, c.Attempt}] = true
		}
	}
	for _, c := range running {
		if !measured[c] {
			return false
		}
	}
	return true
}
