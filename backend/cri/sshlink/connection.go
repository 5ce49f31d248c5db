package sshlink

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"golang.org/x/crypto/ssh"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sshchannel"
)

// connection is one authenticated SSH connection. What it starts ends when it
// dies, and is counted in work.
type connection struct {
	hop    Hop
	client ssh.Conn
	raw    *watchedConn
	// via is the connection to the jump host below it.
	via  *connection
	work *sync.WaitGroup
	// dead is closed when it is of no more use.
	dead chan struct{}
	// roundTrip is how long the last keepalive took, in nanoseconds.
	roundTrip atomic.Int64
	// noTerminal is why the first session has no pty. It is set before the
	// connection is lent.
	noTerminal error

	mu     sync.Mutex
	reason error
}

// newConnection watches over a connection that was just made.
func newConnection(hop Hop, client ssh.Conn, raw *watchedConn, via *connection, work *sync.WaitGroup) *connection {
	c := &connection{hop: hop, client: client, raw: raw, via: via, work: work, dead: make(chan struct{})}
	c.spawn(func() {
		err := client.Wait()
		// What the network said explains more than what SSH made of it.
		if broken := raw.broken.Load(); broken != nil {
			err = *broken
		}
		c.fail(err)
	})
	return c
}

// spawn starts f unless the connection is dead. f must end when it dies.
func (c *connection) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reason != nil {
		return false
	}
	c.work.Go(f)
	return true
}

// link is the connection as its channels see it.
func (c *connection) link() sshchannel.Link {
	return sshchannel.Link{Go: c.spawn, Dead: c.dead, Dying: c.dying, Err: c.lost}
}

// fail ends the connection with all that goes through it. The first reason stays.
func (c *connection) fail(reason error) {
	c.mu.Lock()
	first := c.reason == nil
	if first {
		c.reason = reason
		close(c.dead)
	}
	c.mu.Unlock()
	if !first {
		return
	}
	// The network first: it ends whatever blocks. There is nothing to be done about
	// an error, and nothing to be lost.
	_ = c.raw.Close()
	if c.via != nil {
		c.via.fail(reason)
	}
}

// lost is why the connection died, as callers see it.
func (c *connection) lost() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return backend.Errorf(backend.ErrUnavailable, "connection to %s lost: %w", c.hop.Address, c.reason)
}

// dying is true as soon as nothing more can arrive, a little before dead.
func (c *connection) dying() bool {
	select {
	case <-c.dead:
		return true
	default:
		return c.raw.broken.Load() != nil
	}
}

// ended is lost, for callers that may be a little early.
func (c *connection) ended(ctx context.Context) error {
	select {
	case <-c.dead:
		return c.lost()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// do runs f, which may block until the connection dies, and returns earlier when
// the context ends; undo is then called should f succeed after all.
func do[T any](ctx context.Context, c *connection, f func() (T, error), undo func(T)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	var none T
	out := make(chan outcome)
	started := c.spawn(func() {
		value, err := f()
		select {
		case out <- outcome{value, err}:
		case <-ctx.Done():
			if err == nil {
				undo(value)
			}
		case <-c.dead:
		}
	})
	if !started {
		return none, c.lost()
	}
	select {
	case o := <-out:
		if o.err != nil && c.dying() {
			return none, c.ended(ctx)
		}
		return o.value, o.err
	case <-ctx.Done():
		return none, ctx.Err()
	case <-c.dead:
		return none, c.lost()
	}
}

// channel is an open channel with the requests that come on it.
type channel struct {
	ssh.Channel
	requests <-chan *ssh.Request
}

// open opens a channel. Errors: *ssh.OpenChannelError when the host refuses.
func (c *connection) open(ctx context.Context, kind string, payload []byte) (channel, error) {
	return do(ctx, c, func() (channel, error) {
		ch, requests, err := c.client.OpenChannel(kind, payload)
		return channel{ch, requests}, err
	}, func(ch channel) {
		// Nobody waits for it any more. It ends when the host answers.
		_ = ch.Close()
		ssh.DiscardRequests(ch.requests)
	})
}

// request sends a request on a channel and returns whether it was granted.
func (c *connection) request(ctx context.Context, ch ssh.Channel, name string, payload any) (bool, error) {
	return do(ctx, c, func() (bool, error) {
		return ch.SendRequest(name, true, ssh.Marshal(payload))
	}, func(bool) {})
}

// watchedConn counts what arrives and keeps why nothing more does.
type watchedConn struct {
	net.Conn
	arrived atomic.Uint64
	broken  atomic.Pointer[error]
	// traffic is where bytes are counted beyond the connection's life; nil for one
	// that lies within another.
	traffic *traffic
}

// Write counts what was sent.
func (w *watchedConn) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	w.traffic.send(n)
	return n, err
}

// Read notes an error before anybody above can see its effects.
func (w *watchedConn) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.arrived.Add(uint64(n)) //nolint:gosec // never negative
	w.traffic.receive(n)
	if err != nil {
		broken := fmt.Errorf("read: %w", err)
		w.broken.CompareAndSwap(nil, &broken)
	}
	return n, err
}
