package syncloop

import "sync"

// signal wakes any number of waiters when something happens.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

// next is closed the next time that it happens.
func (s *signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *signal) happened() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}

// milestone is closed when something has happened, for good.
type milestone chan struct{}

func (m milestone) reached() bool {
	select {
	case <-m:
		return true
	default:
		return false
	}
}
