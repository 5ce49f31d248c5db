package gate

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// Gate is open until a deadline that whoever holds the lease moves on. It serves
// one term of a leader: the next has its own, so that what is left of a term that
// was lost never passes again.
type Gate struct {
	closed chan struct{} // closed by Close

	mu     sync.Mutex
	always bool
	// until is when the lease ends; remote when what the remote said of it does.
	until, remote time.Time
	shut          bool
	superseded    bool
	// confirm asks the remote; nil: it does not tell leaders apart.
	confirm   func(context.Context) error
	confirmed bool
}

// New returns a gate that is closed until it is held.
func New() *Gate { return &Gate{closed: make(chan struct{})} }

// Always returns a gate that is open until Close.
func Always() *Gate { return &Gate{closed: make(chan struct{}), always: true} }

// Hold opens the gate until a time: that of the lease's last renewal, as it was
// asked for, plus its duration. It never moves the deadline back.
func (g *Gate) Hold(until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if until.After(g.until) {
		g.until = until
	}
}

// Close shuts the gate at once and for ever: the lease was given up or lost.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.shut {
		g.shut = true
		close(g.closed)
	}
}

// Closed is closed by Close. A deadline that passed does not close it, since the
// lease may be held again.
func (g *Gate) Closed() <-chan struct{} { return g.closed }

// Open is true while changes may be made. It asks both clocks: the monotonic one
// stands still while a machine sleeps, the wall clock may be set back.
func (g *Gate) Open() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.shut && (g.always || openAt(time.Now(), g.until))
}

func openAt(now, until time.Time) bool {
	return now.Before(until) && now.Round(0).Before(until.Round(0))
}

// Left is for how long the gate stays open without a renewal.
func (g *Gate) Left() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	return min(g.until.Sub(now), g.until.Round(0).Sub(now.Round(0)))
}

// Permit is nil while the remote may be changed: it is a [backend.Permit]. That is while
// the gate is open, and while the remote has confirmed this term lately. The error says
// that nothing was made, and that it may be tried again.
func (g *Gate) Permit(change string) error {
	g.mu.Lock()
	lately := !g.shut && openAt(time.Now(), g.remote)
	g.mu.Unlock()
	if lately {
		return nil
	}
	return g.permitAPI(change)
}

// permitAPI is Permit for changes in the API, of which the lease alone decides.
func (g *Gate) permitAPI(change string) error {
	if g.Open() {
		return nil
	}
	return backend.Errorf(backend.ErrThrottled, "%s: this process does not hold the node's lease now", change)
}

// Transport returns next with the gate before every request that may change
// something in the API; reads pass.
func (g *Gate) Transport(next http.RoundTripper) http.RoundTripper {
	return transport{g, next}
}

type transport struct {
	gate *Gate
	next http.RoundTripper
}

// RoundTrip refuses what changes something while the gate is closed.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
	default:
		if err := t.gate.permitAPI(r.Method); err != nil {
			if r.Body != nil { // a RoundTripper closes the body, also on errors
				if closeErr := r.Body.Close(); closeErr != nil {
					return nil, fmt.Errorf("%w (and closing the body: %w)", err, closeErr)
				}
			}
			return nil, err
		}
	}
	return t.next.RoundTrip(r)
}
