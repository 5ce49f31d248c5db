package cri

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
	// giveWay is how long streams give way after a step of a pod's life began or
	// ended: longer than one step takes and than what lies between two.
	giveWay = 500 * time.Millisecond
	// giveWayRate is how many bytes a second all streams together move meanwhile,
	// giveWayBurst how many at once: no terminal gets near.
	giveWayRate  = 8 << 20
	giveWayBurst = 256 << 10
)

// way makes what moves much data (kubectl cp, exec, port-forward) give way to pods that
// start or go: on the host, on the link and here they share processors and bandwidth
// with them, and a copy takes all there is. Launch, Start, Place and Remove take it; a lone
// copy is not slowed.
type way struct {
	limit *rate.Limiter

	mu    sync.Mutex
	until time.Time
}

func newWay() *way { return &way{limit: rate.NewLimiter(giveWayRate, giveWayBurst)} }

// taken notes that a step of a pod's life begins; the returned func that it ended.
func (w *way) taken() (ended func()) {
	note := func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.until = time.Now().Add(giveWay)
	}
	note()
	return note
}

func (w *way) isTaken(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return now.Before(w.until)
}

// give waits until n bytes more may be moved, or for the end of done.
func (w *way) give(n int, done <-chan struct{}) {
	for n > 0 {
		now := time.Now()
		if !w.isTaken(now) {
			return
		}
		part := min(n, giveWayBurst)
		n -= part
		delay := w.limit.ReserveN(now, part).DelayFrom(now)
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

// yieldingDialer dials connections that give way.
type yieldingDialer struct {
	host.Dialer
	way *way
}

// DialContext implements [host.Dialer].
func (d yieldingDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.Dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err //nolint:wrapcheck // the same method, one layer up
	}
	c := &yieldingConn{Conn: conn, way: d.way, closed: make(chan struct{})}
	c.close = sync.OnceValue(func() error {
		close(c.closed)
		return conn.Close()
	})
	return c, nil
}

// yieldingConn is a connection whose reads and writes give way.
type yieldingConn struct {
	net.Conn
	way    *way
	closed chan struct{}
	close  func() error
}

// Read returns what came, late while there is need: the other side stops sending once
// the link's buffers are full.
func (c *yieldingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.way.give(n, c.closed)
	return n, err //nolint:wrapcheck // callers compare it
}

// Write sends, and takes its time while there is need.
func (c *yieldingConn) Write(p []byte) (int, error) {
	c.way.give(len(p), c.closed)
	return c.Conn.Write(p) //nolint:wrapcheck // callers compare it
}

// Close ends the connection, and what waits for its turn. Again is fine.
func (c *yieldingConn) Close() error { return c.close() }

// CloseWrite ends what is sent.
func (c *yieldingConn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return fmt.Errorf("end what is sent on %T: %w", c.Conn, errors.ErrUnsupported)
	}
	return half.CloseWrite() //nolint:wrapcheck // it is the connection's
}
