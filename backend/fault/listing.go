package fault

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// memory is the last complete answer of a listing, for stale ones.
type memory[T any] struct {
	mu   sync.Mutex
	last []T
	from time.Time // when the call began
}

func (m *memory[T]) keep(facts []T, from time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last, m.from = slices.Clone(facts), from
}

// old is false when there was no answer yet, or only one older than most.
func (m *memory[T]) old(most time.Duration) ([]T, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.last), !m.from.IsZero() && (most == 0 || time.Since(m.from) <= most)
}

// read makes a listing, complete, cut short, or from memory.
func read[T any](ctx context.Context, s *Script, c Call, old func(time.Duration) ([]T, bool), call func() ([]T, error)) ([]T, error) {
	f := s.next(c)
	var facts []T
	err := f.apply(ctx, c, func() (err error) {
		if last, ok := old(s.Stalest); f.Stale && ok {
			facts = last
			return nil
		}
		facts, err = call()
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case f.Partial:
		return half(facts), backend.Errorf(backend.ErrUnavailable, "%w break in the middle of %s", ErrInjected, c.Method)
	}
	return facts, nil
}

// half is every second one.
func half[T any](facts []T) []T {
	var out []T
	for i := 0; i < len(facts); i += 2 {
		out = append(out, facts[i])
	}
	return out
}

// skewed is a time of a remote whose clock was measured wrong.
func (s *Script) skewed(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(s.Skew)
}

func (s *Script) skew(facts []backend.PodFacts) {
	if s.Skew == 0 {
		return
	}
	for i := range facts {
		f := &facts[i]
		f.CreatedAt, f.StoppedAt = s.skewed(f.CreatedAt), s.skewed(f.StoppedAt)
		for j := range f.Containers {
			c := &f.Containers[j]
			c.CreatedAt, c.StartedAt, c.FinishedAt = s.skewed(c.CreatedAt), s.skewed(c.StartedAt), s.skewed(c.FinishedAt)
		}
	}
}
