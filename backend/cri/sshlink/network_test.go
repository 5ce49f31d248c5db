package sshlink

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/burstlet/burstlet/backend/deadline"
)

// network is a network in memory, in virtual time: listeners by address, and
// connections that can be cut (nothing arrives any more) and mended, or severed.
type network struct {
	mu      sync.Mutex
	servers map[string]func(net.Conn)
	conns   []*memConn
	cut     bool
	mended  chan struct{}
	serving sync.WaitGroup
}

func newNetwork(t *testing.T) *network {
	n := &network{servers: map[string]func(net.Conn){}, mended: make(chan struct{})}
	t.Cleanup(func() {
		n.sever()
		n.serving.Wait()
	})
	return n
}

func (n *network) listen(address string, serve func(net.Conn)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.servers[address] = serve
}

func (n *network) close(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.servers, address)
}

func (n *network) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	serve, cut := n.servers[address], n.cut
	n.mu.Unlock()
	if cut {
		<-ctx.Done()
		return nil, &net.OpError{Op: "dial", Net: network, Err: os.ErrDeadlineExceeded}
	}
	if serve == nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	near, far := n.pipe(address)
	n.serving.Go(func() { serve(far) })
	return near, nil
}

func (n *network) pipe(address string) (near, far *memConn) {
	up, down := newMemStream(n), newMemStream(n)
	near = &memConn{in: down, out: up, remote: address, readBy: deadline.New(), writeBy: deadline.New()}
	far = &memConn{in: up, out: down, remote: "192.0.2.9:40000", readBy: deadline.New(), writeBy: deadline.New()}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns = append(n.conns, near, far)
	return near, far
}

// interrupt keeps everything from arriving until mend.
func (n *network) interrupt() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut, n.mended = true, make(chan struct{})
}

func (n *network) mend() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cut {
		n.cut = false
		close(n.mended)
	}
}

func (n *network) interrupted() (bool, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cut, n.mended
}

// sever ends all connections, as a reset does.
func (n *network) sever() {
	n.mu.Lock()
	conns := slices.Clone(n.conns)
	n.conns = nil
	n.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}

// memStream is one direction with a buffer of 64 KiB.
type memStream struct {
	network *network
	chunks  chan []byte
	closed  chan struct{}
	once    sync.Once
	rest    []byte
}

func newMemStream(n *network) *memStream {
	return &memStream{network: n, chunks: make(chan []byte, 64), closed: make(chan struct{})}
}

func (s *memStream) close() { s.once.Do(func() { close(s.closed) }) }

type memConn struct {
	in, out         *memStream
	remote          string
	readBy, writeBy *deadline.Deadline
}

func (c *memConn) Read(p []byte) (int, error) {
	for len(c.in.rest) == 0 {
		cut, mended := c.in.network.interrupted()
		chunks, closed := c.in.chunks, c.in.closed
		if !cut {
			mended = nil
		} else {
			chunks, closed = nil, nil
		}
		select {
		case c.in.rest = <-chunks:
		default:
			select {
			case c.in.rest = <-chunks:
			case <-mended:
			case <-closed:
				return 0, io.EOF
			case <-c.out.closed:
				return 0, net.ErrClosed
			case <-c.readBy.Passed():
				return 0, os.ErrDeadlineExceeded
			}
		}
		if cut, _ := c.in.network.interrupted(); cut && len(c.in.rest) > 0 {
			_, mended := c.in.network.interrupted()
			select {
			case <-mended:
			case <-c.out.closed:
				return 0, net.ErrClosed
			}
		}
	}
	n := copy(p, c.in.rest)
	c.in.rest = c.in.rest[n:]
	return n, nil
}

func (c *memConn) Write(p []byte) (int, error) {
	select {
	case c.out.chunks <- slices.Clone(p):
		return len(p), nil
	case <-c.out.closed:
		return 0, net.ErrClosed
	case <-c.in.closed:
		return 0, syscall.EPIPE
	case <-c.writeBy.Passed():
		return 0, os.ErrDeadlineExceeded
	}
}

func (c *memConn) Close() error {
	c.out.close()
	c.readBy.Stop()
	c.writeBy.Stop()
	return nil
}

// namedAddr is an address as a test names it.
type namedAddr string

func (namedAddr) Network() string  { return "tcp" }
func (a namedAddr) String() string { return string(a) }

func (c *memConn) LocalAddr() net.Addr  { return namedAddr("192.0.2.1:1000") }
func (c *memConn) RemoteAddr() net.Addr { return namedAddr(c.remote) }

func (c *memConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}
func (c *memConn) SetReadDeadline(t time.Time) error  { c.readBy.Set(t); return nil }
func (c *memConn) SetWriteDeadline(t time.Time) error { c.writeBy.Set(t); return nil }

// dropAtOnce is a server that hangs up.
func dropAtOnce(c net.Conn) { _ = c.Close() }

// silent is a server that never says a word.
func silent(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
