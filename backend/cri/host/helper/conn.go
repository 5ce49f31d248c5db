package helper

import (
	"io"
	"net"
	"sync"
	"time"
)

// conn makes a byte stream the connection that net/http wants, and exchanges
// greetings before the first bytes.
type conn struct {
	stream io.ReadWriteCloser
	// noise is how much may come before the other side's greeting.
	noise   int
	version string

	meeting sync.Once
	notMet  error
	// rest was read with the greeting; it is the reader's.
	rest []byte

	writing sync.Mutex
	hello   []byte // not yet written

	once sync.Once
	done chan struct{}
	// failed is why it ended, set before done is closed.
	failed error
	closed error
}

func newConn(stream io.ReadWriteCloser, version string, noise int) *conn {
	return &conn{stream: stream, noise: noise, version: version, hello: greeting(version), done: make(chan struct{})}
}

// Read reads what follows the greeting.
func (c *conn) Read(p []byte) (int, error) {
	if err := c.meet(); err != nil {
		return 0, err
	}
	if len(c.rest) > 0 {
		n := copy(p, c.rest)
		c.rest = c.rest[n:]
		return n, nil
	}
	n, err := c.stream.Read(p)
	if err != nil {
		c.end(err)
	}
	return n, err
}

// meet reads the other side's greeting, once.
func (c *conn) meet() error {
	c.meeting.Do(func() {
		c.rest, c.notMet = readGreeting(c.stream, c.version, c.noise)
		if c.notMet != nil {
			// The other side is to know why, too; it may have gone.
			_, _ = c.write(nil)
			c.end(c.notMet)
		}
	})
	return c.notMet
}

// Write writes the greeting with the first bytes: it costs no packet of its own.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.write(p)
	if err != nil {
		// What the other side said before it left tells more.
		if why := c.meet(); why != nil {
			err = why
		}
		c.end(err)
	}
	return n, err
}

func (c *conn) write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	switch {
	case c.hello == nil && len(p) == 0:
		return 0, nil
	case c.hello == nil:
		return c.stream.Write(p)
	}
	hello := append(c.hello, p...)
	c.hello = nil
	if _, err := c.stream.Write(hello); err != nil {
		return 0, err
	}
	return len(p), nil
}

// end closes the stream; the first reason counts.
func (c *conn) end(why error) {
	c.once.Do(func() {
		c.failed = why
		c.closed = c.stream.Close()
		close(c.done)
	})
}

// Close ends the connection from this side.
func (c *conn) Close() error {
	c.end(net.ErrClosed)
	<-c.done
	return c.closed
}

// reason is why it ended; nil while it has not.
func (c *conn) reason() error {
	select {
	case <-c.done:
		return c.failed
	default:
		return nil
	}
}

// A stream has no address, and its operations end when it is closed.
func (c *conn) LocalAddr() net.Addr              { return streamAddr{} }
func (c *conn) RemoteAddr() net.Addr             { return streamAddr{} }
func (c *conn) SetDeadline(time.Time) error      { return nil }
func (c *conn) SetReadDeadline(time.Time) error  { return nil }
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

type streamAddr struct{}

func (streamAddr) Network() string { return "stream" }
func (streamAddr) String() string  { return "host helper" }

// listener accepts one connection, and then waits for its end.
type listener struct {
	conn *conn
	once chan struct{}
}

func newListener(c *conn) *listener {
	l := &listener{conn: c, once: make(chan struct{}, 1)}
	l.once <- struct{}{}
	return l
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.once:
		return l.conn, nil
	case <-l.conn.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error   { return nil }
func (l *listener) Addr() net.Addr { return streamAddr{} }
