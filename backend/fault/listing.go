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
	m.last, m.from = facts, from
}

// old is false when there was no answer yet, or only one older than most.
func (m *memory[T]) old(most time.Duration) ([]T, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last, !m.from.IsZero() && (most == 0 || time.Since(m.from) <= most)
}

// listing is how a listing is made.
type listing[T any] struct {
	// next makes the call and fills the reply.
	next   func(context.Context) error
	memory *memory[T]
	// part is what a listing of a part is about: it is not kept, and stale it is that
	// part of what was kept. Nil for complete ones.
	part func(T) bool
	// copy copies what is kept, and skew moves the times of an answer; both may be nil.
	copy func([]T) []T
	skew func([]T)
}

// read makes a listing, complete, cut short, or from memory.
func read[T any](ctx context.Context, s *Script, c Call, reply *[]T, l listing[T]) error {
	f := s.next(c)
	if l.copy == nil {
		l.copy = slices.Clone[[]T]
	}
	err := f.apply(ctx, c, func() error {
		if last, ok := l.memory.old(s.Stalest); f.Stale && ok {
			*reply = l.copy(last)
			if l.part != nil {
				*reply = slices.DeleteFunc(*reply, func(t T) bool { return !l.part(t) })
			}
			return nil
		}
		from := time.Now()
		err := l.next(ctx)
		if err == nil && l.part == nil {
			l.memory.keep(l.copy(*reply), from)
		}
		return err
	})
	if err != nil {
		*reply = nil
		return err
	}
	if f.Partial {
		*reply = half(*reply)
		err = backend.Errorf(backend.ErrUnavailable, "%w break in the middle of %s", ErrInjected, c.Method)
	}
	if l.skew != nil {
		l.skew(*reply)
	}
	return err
}

// half is every second one.
func half[T any](facts []T) []T {
	var out []T
	for i := 0; i < len(facts); i += 2 {
		out = append(out, facts[i])
	}
	return out
}
