package remotehost

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Link is a TCP proxy on the machine, on loopback by default, that leads into a host's network
// and can be made as bad as networks are. Its methods may be called by many
// goroutines.
type Link struct {
	listener net.Listener
	dial     func(context.Context) (net.Conn, error)
	running  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	delay  time.Duration
	whole  chan struct{} // closed while the link is not cut
	cut    bool
	conns  map[*passage]bool
	counts LinkCounts
}

// LinkCounts says what a link carried since it was made.
type LinkCounts struct {
	// Connections is how many were accepted, Open how many of them are open.
	Connections, Open int
	// ToHost and FromHost are bytes that were delivered.
	ToHost, FromHost int64
}

// listenLink makes a link at a free port of an address of the machine; loopback
// where that is the zero address.
func listenLink(ctx context.Context, at netip.Addr, dial func(context.Context) (net.Conn, error)) (*Link, error) {
	if !at.IsValid() {
		at = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", netip.AddrPortFrom(at, 0).String())
	if err != nil {
		return nil, fmt.Errorf("listen for link: %w", err)
	}
	return serveLink(listener, dial), nil
}

// serveLink passes on what a listener accepts, until close.
func serveLink(listener net.Listener, dial func(context.Context) (net.Conn, error)) *Link {
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
		ended := l.closed
		l.mu.Unlock()
		if ended {
			p.reset()
			continue
		}
		l.running.Go(p.run)
	}
}

// Address is the link's "address:port", on the machine.
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

// Restore ends a Cut.
func (l *Link) Restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
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
func (l *Link) Counts() LinkCounts {
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

func (l *Link) count(bytes int, toHost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if toHost {
		l.counts.ToHost += int64(bytes)
	} else {
		l.counts.FromHost += int64(bytes)
	}
}

// close ends the link and all its connections.
func (l *Link) close() error {
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
