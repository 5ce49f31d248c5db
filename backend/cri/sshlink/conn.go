package sshlink

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	// smallBuffer is what a channel starts with; probes need no more.
	smallBuffer = 2 << 10
	// largeBuffer is the most that one packet carries.
	largeBuffer = 32 << 10
)

// conn is a channel as a net.Conn. Reads and writes of a channel block without a
// deadline, so goroutines do them: reader, writer, and requests, which also closes.
// They end when the other side has closed as well, or with the connection.
type conn struct {
	under         *connection
	ch            ssh.Channel
	local, remote net.Addr

	closed chan struct{}
	hang   func()
	// gone is closed when both sides have closed, or the connection died.
	gone chan struct{}

	readDeadline, writeDeadline *deadline

	readTurn chan struct{}
	incoming chan []byte
	rest     []byte
	// readErr is set before incoming is closed.
	readErr error

	writeTurn chan struct{}
	// idle holds the writer's buffer while nothing is being written.
	idle     chan []byte
	outgoing chan write
}

// write is a piece to be written; without data it ends what the other side reads.
type write struct {
	data []byte
	done chan written
}

type written struct {
	n   int
	err error
}

// newConn takes over a channel. onRequest, if any, gets the channel's requests and
// must not block. It is nil when the connection has died.
func newConn(c *connection, ch channel, local, remote net.Addr, onRequest func(*ssh.Request)) *conn {
	t := &conn{
		under: c, ch: ch.Channel, local: local, remote: remote, closed: make(chan struct{}), gone: make(chan struct{}),
		readDeadline: newDeadline(), writeDeadline: newDeadline(),
		readTurn: make(chan struct{}, 1), incoming: make(chan []byte),
		writeTurn: make(chan struct{}, 1), idle: make(chan []byte, 1), outgoing: make(chan write),
	}
	t.idle <- make([]byte, 0, smallBuffer)
	t.hang = sync.OnceFunc(func() { close(t.closed) })
	if !c.spawn(func() { t.serveRequests(ch.requests, onRequest) }) || !c.spawn(t.readAll) || !c.spawn(t.writeAll) {
		return nil
	}
	return t
}

// serveRequests serves the channel's requests, until both sides have closed.
func (t *conn) serveRequests(requests <-chan *ssh.Request, onRequest func(*ssh.Request)) {
	defer close(t.gone)
	closed := t.closed
	for {
		select {
		case r, open := <-requests:
			if !open {
				return
			}
			if onRequest != nil {
				onRequest(r)
			}
			if r.WantReply {
				_ = r.Reply(false, nil) // a dead connection is noticed elsewhere
			}
		case <-closed:
			_ = t.ch.Close() // an error means that it is closed
			closed = nil
		}
	}
}

// readAll reads ahead by one buffer. There are two: what was handed out is done
// with when the next is taken.
func (t *conn) readAll() {
	defer close(t.incoming)
	buffers := [2][]byte{make([]byte, smallBuffer), make([]byte, smallBuffer)}
	for i := 0; ; i = 1 - i {
		n, err := t.ch.Read(buffers[i])
		if n > 0 {
			select {
			case t.incoming <- buffers[i][:n]:
			case <-t.closed:
				return
			case <-t.under.dead:
				return
			}
			if n == len(buffers[i]) && n < largeBuffer {
				buffers[1-i] = make([]byte, min(4*n, largeBuffer))
			}
		}
		if err != nil {
			t.readErr = err
			return
		}
	}
}

// writeAll writes what Write hands over.
func (t *conn) writeAll() {
	for {
		select {
		case w := <-t.outgoing:
			var r written
			if w.data == nil {
				r.err = t.ch.CloseWrite()
			} else {
				r.n, r.err = t.ch.Write(w.data)
			}
			t.idle <- w.data[:0]
			w.done <- r
		case <-t.closed:
			return
		case <-t.under.dead:
			return
		}
	}
}

// Read returns io.EOF when the other side has ended what it writes, and an error
// of class Unavailable when the connection died.
func (t *conn) Read(p []byte) (int, error) {
	if err := t.turn("read", t.readTurn, t.readDeadline); err != nil {
		return 0, err
	}
	defer func() { <-t.readTurn }()
	if len(p) == 0 {
		return 0, nil
	}
	if len(t.rest) == 0 {
		if err := t.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

func (t *conn) fill() error {
	select {
	case data, open := <-t.incoming:
		if open {
			t.rest = data
			return nil
		}
	case <-t.readDeadline.wait():
		return t.failed("read", os.ErrDeadlineExceeded)
	case <-t.closed:
		return t.failed("read", net.ErrClosed)
	}
	// A channel ends with the connection as it does by itself.
	if t.under.dying() {
		return t.failed("read", t.broken())
	}
	if t.readErr != nil && !errors.Is(t.readErr, io.EOF) {
		return t.failed("read", t.readErr)
	}
	return io.EOF
}

// Write returns when all is on its way. After a deadline has passed, what was
// handed over before may still go.
func (t *conn) Write(p []byte) (int, error) {
	if err := t.turn("write", t.writeTurn, t.writeDeadline); err != nil {
		return 0, err
	}
	defer func() { <-t.writeTurn }()
	n := 0
	for n < len(p) {
		piece := p[n:min(n+largeBuffer, len(p))]
		sent, err := t.writeOne(func(buffer []byte) []byte { return append(buffer, piece...) })
		n += sent
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// CloseWrite ends what the other side reads, after what was written.
func (t *conn) CloseWrite() error {
	if err := t.turn("close", t.writeTurn, t.writeDeadline); err != nil {
		return err
	}
	defer func() { <-t.writeTurn }()
	_, err := t.writeOne(func([]byte) []byte { return nil })
	return err
}

// turn waits for the other calls in a direction.
func (t *conn) turn(op string, turn chan struct{}, d *deadline) error {
	if d.isPassed() {
		return t.failed(op, os.ErrDeadlineExceeded)
	}
	select {
	case <-t.closed:
		return t.failed(op, net.ErrClosed)
	default:
	}
	select {
	case turn <- struct{}{}:
		return nil
	case <-d.wait():
		return t.failed(op, os.ErrDeadlineExceeded)
	case <-t.closed:
		return t.failed(op, net.ErrClosed)
	}
}

// writeOne has the writer write one piece.
func (t *conn) writeOne(fill func([]byte) []byte) (int, error) {
	late := t.writeDeadline.wait()
	var buffer []byte
	select {
	case buffer = <-t.idle:
	case <-late:
		return 0, t.failed("write", os.ErrDeadlineExceeded)
	case <-t.closed:
		return 0, t.failed("write", net.ErrClosed)
	case <-t.under.dead:
		return 0, t.failed("write", t.broken())
	}
	w := write{data: fill(buffer), done: make(chan written, 1)}
	select {
	case t.outgoing <- w:
	case <-t.closed:
		return 0, t.failed("write", net.ErrClosed)
	case <-t.under.dead:
		return 0, t.failed("write", t.broken())
	}
	select {
	case r := <-w.done:
		if r.err == nil {
			return r.n, nil
		}
		if t.under.dying() {
			return r.n, t.failed("write", t.broken())
		}
		// The other side has closed.
		return r.n, t.failed("write", os.NewSyscallError("write", syscall.EPIPE))
	case <-late:
		return 0, t.failed("write", os.ErrDeadlineExceeded)
	case <-t.closed:
		return 0, t.failed("write", net.ErrClosed)
	case <-t.under.dead:
		return 0, t.failed("write", t.broken())
	}
}

// Close ends both directions; whoever waits gets net.ErrClosed.
func (t *conn) Close() error {
	t.hang()
	t.readDeadline.stop()
	t.writeDeadline.stop()
	return nil
}

// broken is why the connection below died, once that is known: what is dying is
// dead in a moment.
func (t *conn) broken() error {
	<-t.under.dead
	return t.under.lost()
}

func (t *conn) failed(op string, err error) error {
	return &net.OpError{Op: op, Net: t.remote.Network(), Source: t.local, Addr: t.remote, Err: err}
}

// LocalAddr is a placeholder: the host knows.
func (t *conn) LocalAddr() net.Addr { return t.local }

// RemoteAddr is what was dialled.
func (t *conn) RemoteAddr() net.Addr { return t.remote }

// SetDeadline bounds reads and writes, those that wait as well.
func (t *conn) SetDeadline(at time.Time) error {
	return errors.Join(t.SetReadDeadline(at), t.SetWriteDeadline(at))
}

// SetReadDeadline bounds reads.
func (t *conn) SetReadDeadline(at time.Time) error { return t.setDeadline(t.readDeadline, at) }

// SetWriteDeadline bounds writes.
func (t *conn) SetWriteDeadline(at time.Time) error { return t.setDeadline(t.writeDeadline, at) }

func (t *conn) setDeadline(d *deadline, at time.Time) error {
	select {
	case <-t.closed:
		return t.failed("set deadline", net.ErrClosed)
	default:
	}
	d.set(at)
	return nil
}
