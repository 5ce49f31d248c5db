package sshlink

import (
	"context"
	"errors"
	"sync"
)

// signal wakes any number of waiters when something changed.
type signal struct {
	mu      sync.Mutex
	changed chan struct{}
}

func newSignal() *signal { return &signal{changed: make(chan struct{})} }

// wait returns a channel that the next change closes.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *signal) raise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// settled returns what get does once that is not about a connection or a helper on
// its way: an attempt comes to its end by itself, within its own bounds.
func settled[T any](ctx context.Context, s *signal, get func() (T, error)) (T, error) {
	for {
		changed := s.wait()
		v, err := get()
		if !errors.Is(err, errConnecting) && !errors.Is(err, errNoHelper) {
			return v, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return v, err
		}
	}
}
