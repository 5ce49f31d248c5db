// Package throttle slows what moves much data (kubectl cp, exec, port-forward) while
// pods start or go: on the host, on the link and here they share processors and
// bandwidth with it, and a copy takes all there is. A lone copy is not slowed. The
// package imports nothing of the project but what a dialer is.
package throttle

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/burstlet/burstlet/backend/cri/host"
)

const (
	// slowFor is how long streams are slow after a step of a pod's life began or
	// ended: longer than one step takes and than what lies between two.
	slowFor = 500 * time.Millisecond
	// slowRate is how many bytes a second all streams together move meanwhile,
	// slowBurst how many at once: no terminal gets near.
	slowRate  = 8 << 20
	slowBurst = 256 << 10
)

// Throttle slows all connections of its dialers together while a step of some pod's
// life is under way. It is safe for concurrent use.
type Throttle struct {
	limit *rate.Limiter

	mu    sync.Mutex
	until time.Time
}

// New makes a throttle that slows nothing before the first Begin.
func New() *Throttle { return &Throttle{limit: rate.NewLimiter(slowRate, slowBurst)} }

// Begin notes that a step of a pod's life begins; the returned func notes that it
// ended. Streams are slow for a moment after each, so that a step without end slows
// nothing for long.
func (t *Throttle) Begin() (ended func()) {
	note := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.until = time.Now().Add(slowFor)
	}
	note()
	return note
}

// Slows is true while connections are slow.
func (t *Throttle) Slows(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return now.Before(t.until)
}

// wait waits until n bytes more may be moved, or for the end of done.
func (t *Throttle) wait(n int, done <-chan struct{}) {
	for n > 0 {
		now := time.Now()
		if !t.Slows(now) {
			return
		}
		part := min(n, slowBurst)
		n -= part
		delay := t.limit.ReserveN(now, part).DelayFrom(now)
		if delay == 0 {
			continue
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-done:
			timer.Stop()
			return
		}
	}
}

// Dialer is a dialer whose connections are slow while steps are under way.
func (t *Throttle) Dialer(d host.Dialer) host.Dialer { return dialer{d, t} }

type dialer struct {
	host.Dialer
	throttle *Throttle
}

// DialContext implements [host.Dialer].
func (d dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.Dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err //nolint:wrapcheck // the same method, one layer up
	}
	c := &slowConn{Conn: conn, throttle: d.throttle, closed: make(chan struct{})}
	c.close = sync.OnceValue(func() error {
		close(c.closed)
		return conn.Close()
	})
	return c, nil
}

// slowConn is a connection whose reads and writes the throttle slows.
type slowConn struct {
	net.Conn
	throttle *Throttle
	closed   chan struct{}
	close    func() error
}

// Read returns what came, late while there is need: the other side stops sending once
// the link's buffers are full.
func (c *slowConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.throttle.wait(n, c.closed)
	return n, err //nolint:wrapcheck // callers compare it
}

// Write sends, and takes its time while there is need.
func (c *slowConn) Write(p []byte) (int, error) {
	c.throttle.wait(len(p), c.closed)
	return c.Conn.Write(p) //nolint:wrapcheck // callers compare it
}

// Close ends the connection, and what waits for its turn. Again is fine.
func (c *slowConn) Close() error { return c.close() }

// CloseWrite ends what is sent.
func (c *slowConn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return fmt.Errorf("end what is sent on %T: %w", c.Conn, errors.ErrUnsupported)
	}
	return half.CloseWrite() //nolint:wrapcheck // it is the connection's
}
