package sshchannel

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/burstlet/burstlet/backend/deadline"
)

const (
	// smallBuffer is what a channel starts with; probes need no more.
	smallBuffer = 2 << 10
	// largeBuffer is the most that one packet carries.
	largeBuffer = 32 << 10
)

// Link is the SSH connection that a channel lies within.
type Link struct {
	// Go runs f in a goroutine that the link's owner waits for. It is false, and does
	// nothing, once the link has died.
	Go func(f func()) bool
	// Dead is closed when the link has died.
	Dead <-chan struct{}
	// Dying is true as soon as nothing more can arrive, a little before Dead closes.
	Dying func() bool
	// Err is why the link died. It is called once Dead is closed.
	Err func() error
}

// Conn is a channel as a net.Conn. Reads and writes of a channel block without a
// deadline, so goroutines do them: reader, writer, and requests, which also closes.
// They end when the other side has closed as well, or with the link.
type Conn struct {
	link          Link
	ch            ssh.Channel
	local, remote net.Addr

	closed chan struct{}
	hangUp func()
	// gone is closed when both sides have closed, or the link died.
	gone chan struct{}

	readDeadline, writeDeadline *deadline.Deadline

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

// New takes over a channel and its requests. onRequest, if any, gets each request and
// must not block. New returns nil when the link has died.
func New(
	link Link, ch ssh.Channel, requests <-chan *ssh.Request, local, remote net.Addr, onRequest func(*ssh.Request),
) *Conn {
	t := &Conn{
		link: link, ch: ch, local: local, remote: remote, closed: make(chan struct{}), gone: make(chan struct{}),
		readDeadline: deadline.New(), writeDeadline: deadline.New(),
		readTurn: make(chan struct{}, 1), incoming: make(chan []byte),
		writeTurn: make(chan struct{}, 1), idle: make(chan []byte, 1), outgoing: make(chan write),
	}
	t.idle <- make([]byte, 0, smallBuffer)
	t.hangUp = sync.OnceFunc(func() { close(t.closed) })
	if !link.Go(func() { t.serveRequests(requests, onRequest) }) || !link.Go(t.readAll) || !link.Go(t.writeAll) {
		return nil
	}
	return t
}

// serveRequests serves the channel's requests, until both sides have closed.
func (t *Conn) serveRequests(requests <-chan *ssh.Request, onRequest func(*ssh.Request)) {
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
func (t *Conn) readAll() {
	defer close(t.incoming)
	buffers := [2][]byte{make([]byte, smallBuffer), make([]byte, smallBuffer)}
	for i := 0; ; i = 1 - i {
		n, err := t.ch.Read(buffers[i])
		if n > 0 {
			select {
			case t.incoming <- buffers[i][:n]:
			case <-t.closed:
				return
			case <-t.link.Dead:
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
func (t *Conn) writeAll() {
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
		case <-t.link.Dead:
			return
		}
	}
}

// Read returns io.EOF when the other side has ended what it writes, and an error
// that is the link's when it died.
func (t *Conn) Read(p []byte) (int, error) {
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

func (t *Conn) fill() error {
	select {
	case data, open := <-t.incoming:
		if open {
			t.rest = data
			return nil
		}
	case <-t.readDeadline.Passed():
		return t.failed("read", os.ErrDeadlineExceeded)
	case <-t.closed:
		return t.failed("read", net.ErrClosed)
	}
	// A channel ends with the connection as it does by itself.
	if t.link.Dying() {
		return t.failed("read", t.broken())
	}
	if t.readErr != nil && !errors.Is(t.readErr, io.EOF) {
		return t.failed("read", t.readErr)
	}
	return io.EOF
}

// Write returns when all is on its way. After a deadline has passed, what was
// handed over before may still go.
func (t *Conn) Write(p []byte) (int, error) {
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
func (t *Conn) CloseWrite() error {
	if err := t.turn("close", t.writeTurn, t.writeDeadline); err != nil {
		return err
	}
	defer func() { <-t.writeTurn }()
	_, err := t.writeOne(func([]byte) []byte { return nil })
	return err
}

// turn waits for the other calls in a direction.
func (t *Conn) turn(op string, turn chan struct{}, d *deadline.Deadline) error {
	if d.HasPassed() {
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
	case <-d.Passed():
		return t.failed(op, os.ErrDeadlineExceeded)
	case <-t.closed:
		return t.failed(op, net.ErrClosed)
	}
}

// writeOne has the writer write one piece.
func (t *Conn) writeOne(fill func([]byte) []byte) (int, error) {
	late := t.writeDeadline.Passed()
	var buffer []byte
	select {
	case buffer = <-t.idle:
	case <-late:
		return 0, t.failed("write", os.ErrDeadlineExceeded)
	case <-t.closed:
		return 0, t.failed("write", net.ErrClosed)
	case <-t.link.Dead:
		return 0, t.failed("write", t.broken())
	}
	w := write{data: fill(buffer), done: make(chan written, 1)}
	select {
	case t.outgoing <- w:
	case <-t.closed:
		return 0, t.failed("write", net.ErrClosed)
	case <-t.link.Dead:
		return 0, t.failed("write", t.broken())
	}
	select {
	case r := <-w.done:
		if r.err == nil {
			return r.n, nil
		}
		if t.link.Dying() {
			return r.n, t.failed("write", t.broken())
		}
		// The other side has closed.
		return r.n, t.failed("write", os.NewSyscallError("write", syscall.EPIPE))
	case <-late:
		return 0, t.failed("write", os.ErrDeadlineExceeded)
	case <-t.closed:
		return 0, t.failed("write", net.ErrClosed)
	case <-t.link.Dead:
		return 0, t.failed("write", t.broken())
	}
}

// Gone is closed when both sides have closed, or the link died.
func (t *Conn) Gone() <-chan struct{} { return t.gone }

// Close ends both directions; calls that wait return net.ErrClosed. It never fails.
func (t *Conn) Close() error {
	t.hangUp()
	t.readDeadline.Stop()
	t.writeDeadline.Stop()
	return nil
}

// broken is why the link died, once that is known: what is dying is dead in a moment.
func (t *Conn) broken() error {
	<-t.link.Dead
	return t.link.Err()
}

func (t *Conn) failed(op string, err error) error {
	return &net.OpError{Op: op, Net: t.remote.Network(), Source: t.local, Addr: t.remote, Err: err}
}

// LocalAddr is a placeholder: the host knows.
func (t *Conn) LocalAddr() net.Addr { return t.local }

// RemoteAddr is what was dialled.
func (t *Conn) RemoteAddr() net.Addr { return t.remote }

// SetDeadline bounds reads and writes, those that wait as well.
func (t *Conn) SetDeadline(at time.Time) error {
	return errors.Join(t.SetReadDeadline(at), t.SetWriteDeadline(at))
}

// SetReadDeadline bounds reads.
func (t *Conn) SetReadDeadline(at time.Time) error { return t.setDeadline(t.readDeadline, at) }

// SetWriteDeadline bounds writes.
func (t *Conn) SetWriteDeadline(at time.Time) error { return t.setDeadline(t.writeDeadline, at) }

func (t *Conn) setDeadline(d *deadline.Deadline, at time.Time) error {
	select {
	case <-t.closed:
		return t.failed("set deadline", net.ErrClosed)
	default:
	}
	d.Set(at)
	return nil
}
