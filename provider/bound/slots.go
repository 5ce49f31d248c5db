package bound

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// ErrFull is the answer to what does not fit.
var ErrFull = errors.New("too many at once")

// Slots are places for things that go on at the same time.
type Slots struct {
	kind          string
	most          int64
	used, refused atomic.Int64
}

// NewSlots returns so many places. kind names in metrics what they are for.
func NewSlots(kind string, most int) *Slots { return &Slots{kind: kind, most: int64(most)} }

// Take takes a place, which free gives back, or returns ErrFull.
func (s *Slots) Take() (free func(), err error) {
	if s.used.Add(1) > s.most {
		s.used.Add(-1)
		s.refused.Add(1)
		return nil, ErrFull
	}
	return func() { s.used.Add(-1) }, nil
}

func (s *Slots) reading() reading { return reading{s.kind, s.most, s.used.Load(), s.refused.Load()} }

// Shares are places for things that go on at the same time, so many for each client.
type Shares struct {
	kind            string
	atOnce, waiting int
	refused         atomic.Int64

	mu    sync.Mutex
	used  int64
	lanes map[string]*lane // of clients that have or want a place
}

// lane is one client's share.
type lane struct {
	users int
	slots chan struct{}
}

// NewShares returns places for so many things of each client at once, behind which so
// many wait. kind names in metrics what they are for.
func NewShares(kind string, atOnce, waiting int) *Shares {
	return &Shares{kind: kind, atOnce: atOnce, waiting: waiting, lanes: make(map[string]*lane)}
}

// Take takes a place of a client, which free gives back. It waits for one, and returns
// ErrFull where too many wait already, or the context's error.
func (s *Shares) Take(ctx context.Context, client string) (free func(), err error) {
	l := s.enter(client)
	if l == nil {
		s.refused.Add(1)
		return nil, ErrFull
	}
	select {
	case l.slots <- struct{}{}:
		return func() {
			<-l.slots
			s.leave(client, l)
		}, nil
	case <-ctx.Done():
		s.leave(client, l)
		return nil, ctx.Err()
	}
}

// enter returns the client's lane, or nil where too many are in it.
func (s *Shares) enter(client string) *lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes[client]
	switch {
	case l == nil:
		l = &lane{slots: make(chan struct{}, s.atOnce)}
		s.lanes[client] = l
	case l.users >= s.atOnce+s.waiting:
		return nil
	}
	l.users++
	s.used++
	return l
}

func (s *Shares) leave(client string, l *lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
	if l.users--; l.users == 0 {
		delete(s.lanes, client)
	}
}

func (s *Shares) reading() reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	return reading{s.kind, int64(s.atOnce + s.waiting), s.used, s.refused.Load()}
}
