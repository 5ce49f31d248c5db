// Package link is a TCP proxy that can be made as bad as networks are: slow, silent,
// reset, refusing. Tests put it between burstlet and a host or an API server.
package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Link passes on what it accepts to the far side. Its methods may be called by many
// goroutines.
type Link struct {
	listener net.Listener
	dial     Dial
	running  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	broken bool
	delay  time.Duration
	whole  chan struct{} // closed while the link is not cut
	cut    bool
	conns  map[*passage]bool
	counts Counts
}

// Dial connects to the far side. Its context ends with the connection's life.
type Dial func(context.Context) (net.Conn, error)

// To dials a TCP address.
func To(address string) Dial {
	return func(ctx context.Context) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "tcp", address)
	}
}

// Counts is what a link has carried since it was made.
type Counts struct {
	// Connections is how many were accepted, Open how many of them are open.
	Connections, Open int
	// Sent and Received are bytes delivered to the far side and from it.
	Sent, Received int64
}

// Listen makes a link at a free port of an address of this machine, or of loopback
// where that is the zero address.
func Listen(ctx context.Context, at netip.Addr, dial Dial) (*Link, error) {
	if !at.IsValid() {
		at = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", netip.AddrPortFrom(at, 0).String())
	if err != nil {
		return nil, fmt.Errorf("listen for link: %w", err)
	}
	return Serve(listener, dial), nil
}

// Serve makes a link of what a listener accepts, until Close.
func Serve(listener net.Listener, dial Dial) *Link {
	l := &Link{listener: listener, dial: dial, whole: make(chan struct{}), conns: map[*passage]bool{}}
	close(l.whole)
	l.running.Go(l.accept)
	return l
}

// accept ends with the listener.
func (l *Link) accept() {
	for {
		conn, err := l.listener.Accept()
		if err != nil {
			return
		}
		p := &passage{link: l, near: conn, done: make(chan struct{})}
		l.mu.Lock()
		l.conns[p] = true
		l.counts.Connections++
		refused := l.closed || l.broken
		l.mu.Unlock()
		if refused {
			p.reset()
			continue
		}
		l.running.Go(p.run)
	}
}

// Address is the link's "address:port".
func (l *Link) Address() string { return l.listener.Addr().String() }

// Cut makes the link a black hole: open connections neither carry anything nor
// end, new ones hang. What was under way is delivered after Restore.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.cut {
		l.cut, l.whole = true, make(chan struct{})
	}
}

// Break resets all connections, and each new one as soon as it is accepted.
func (l *Link) Break() {
	l.mu.Lock()
	l.broken = true
	l.mu.Unlock()
	l.Reset()
}

// Restore ends a Cut or a Break.
func (l *Link) Restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = false
	if l.cut {
		l.cut = false
		close(l.whole)
	}
}

// Reset ends all connections with a reset, on both sides, also while the link is
// cut; new ones are not affected.
func (l *Link) Reset() {
	l.mu.Lock()
	var open []*passage
	for p := range l.conns {
		open = append(open, p)
	}
	l.mu.Unlock()
	for _, p := range open {
		p.reset()
	}
}

// Delay makes everything take that much longer each way, from now on. A new
// connection takes one round trip before it is one.
func (l *Link) Delay(eachWay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = eachWay
}

// Counts says what the link carried so far.
func (l *Link) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := l.counts
	counts.Open = len(l.conns)
	return counts
}

func (l *Link) isCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

func (l *Link) eachWay() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.delay
}

// pass returns when the link is whole, or false when done is closed.
func (l *Link) pass(done <-chan struct{}) bool {
	l.mu.Lock()
	whole := l.whole
	l.mu.Unlock()
	select {
	case <-whole:
		return true
	case <-done:
		return false
	}
}

func (l *Link) forget(p *passage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, p)
}

func (l *Link) count(bytes int, sent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sent {
		l.counts.Sent += int64(bytes)
	} else {
		l.counts.Received += int64(bytes)
	}
}

// Close ends the link and all its connections.
func (l *Link) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	err := l.listener.Close()
	l.Reset()
	l.running.Wait()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close link: %w", err)
	}
	return nil
}
