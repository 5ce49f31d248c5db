package channelconn

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// conn is a connection over a channel.
type conn struct {
	channel       ssh.Channel
	local, remote net.Addr
	done          func()

	// arrived are blocks that were read, and ended closes when no more will come,
	// because of failed.
	arrived chan []byte
	failed  error
	gone    chan struct{}

	reading      sync.Mutex
	rest         []byte
	readDeadline *deadline

	mu         sync.Mutex
	writeTimer *time.Timer
	// writing is true while somebody writes, late once the deadline of writes passed.
	writing, late bool
}

// block is how much is read ahead at most, beside what the channel's window has.
const block = 32 << 10

// New returns a connection over a channel, whose ends have these addresses. Closing it
// closes the channel and calls done, once. It has CloseWrite too.
func New(channel ssh.Channel, local, remote net.Addr, done func()) net.Conn {
	c := &conn{
		channel: channel, local: local, remote: remote, arrived: make(chan []byte),
		gone: make(chan struct{}), readDeadline: newDeadline(),
	}
	c.done = sync.OnceFunc(func() {
		close(c.gone)
		done()
	})
	go c.receive()
	return c
}

// receive reads from the channel until it ends.
func (c *conn) receive() {
	defer close(c.arrived)
	for {
		b := make([]byte, block)
		n, err := c.channel.Read(b)
		if n > 0 {
			select {
			case c.arrived <- b[:n]:
			case <-c.gone:
				return
			}
		}
		if err != nil {
			c.failed = err
			return
		}
	}
}

// Read reads what came, until the deadline.
func (c *conn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if len(c.rest) == 0 {
		select {
		case <-c.readDeadline.passed():
			return 0, os.ErrDeadlineExceeded
		default:
		}
		select {
		case b, ok := <-c.arrived:
			if !ok && c.failed == nil {
				return 0, net.ErrClosed
			}
			if !ok {
				return 0, c.failed
			}
			c.rest = b
		case <-c.gone:
			return 0, net.ErrClosed
		case <-c.readDeadline.passed():
			return 0, os.ErrDeadlineExceeded
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// Write writes. A deadline that passes meanwhile breaks the connection.
func (c *conn) Write(p []byte) (int, error) {
	if c.write(true) {
		return 0, os.ErrDeadlineExceeded
	}
	n, err := c.channel.Write(p)
	if late := c.write(false); late && err != nil {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

// write notes that somebody writes, and says whether it is too late.
func (c *conn) write(begins bool) (late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing = begins && !c.late
	return c.late
}

// CloseWrite ends what is sent.
func (c *conn) CloseWrite() error { return c.channel.CloseWrite() }

// Close closes the connection.
func (c *conn) Close() error {
	c.done()
	err := c.SetWriteDeadline(time.Time{})
	if cerr := c.channel.Close(); cerr != nil && !errors.Is(cerr, io.EOF) { // EOF: it is closed
		err = cerr
	}
	return err
}

// LocalAddr is a name.
func (c *conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is what was dialled.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline bounds Read.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.readDeadline.set(t)
	return nil
}

// SetWriteDeadline bounds Write.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.late = false
	if c.writeTimer != nil {
		c.writeTimer.Stop()
		c.writeTimer = nil
	}
	if t.IsZero() {
		return nil
	}
	var timer *time.Timer
	timer = time.AfterFunc(time.Until(t), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.writeTimer != timer {
			return // another deadline was set
		}
		if c.late = true; c.writing {
			_ = c.channel.Close() // Write tells
		}
	})
	c.writeTimer = timer
	return nil
}

// deadline is a time that can be set again.
type deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	past  chan struct{}
}

func newDeadline() *deadline { return &deadline{past: make(chan struct{})} }

// passed is closed once the deadline has passed.
func (d *deadline) passed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.past
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.past // it passes just now
	}
	d.timer = nil
	select {
	case <-d.past:
		d.past = make(chan struct{})
	default:
	}
	if t.IsZero() {
		return
	}
	past := d.past
	d.timer = time.AfterFunc(time.Until(t), func() { close(past) })
}
