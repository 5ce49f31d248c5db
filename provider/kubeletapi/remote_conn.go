package kubeletapi

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
)

// upgrade is a response whose connection, once taken over, tells when the client
// goes away: net/http does not watch it any more, and the protocols above tell
// nobody. It has no Unwrap, by which they would get around it.
type upgrade struct {
	http.ResponseWriter
	gone   func()
	closed func(error)

	mu    sync.Mutex
	conn  *clientConn
	ended bool
}

// Hijack hands the connection over.
func (u *upgrade) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buf, err := http.NewResponseController(u.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, fmt.Errorf("take over connection: %w", err)
	}
	c := &clientConn{Conn: conn, gone: u.gone, closed: u.closed}
	if n := buf.Reader.Buffered(); n > 0 { // what came behind the headers
		early, err := buf.Reader.Peek(n)
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("take over connection: %w", err), conn.Close())
		}
		c.early = bytes.Clone(early)
	}
	u.mu.Lock()
	u.conn = c
	ended := u.ended
	u.mu.Unlock()
	if ended {
		return nil, nil, errors.Join(net.ErrClosed, c.Close())
	}
	return c, bufio.NewReadWriter(bufio.NewReader(c), bufio.NewWriter(c)), nil
}

// close ends the connection if it was taken over, or as soon as it is.
func (u *upgrade) close() {
	u.mu.Lock()
	conn := u.conn
	u.ended = true
	u.mu.Unlock()
	if conn != nil {
		_ = conn.Close() // it never fails
	}
}

// clientConn is a connection that was taken over. One goroutine reads it.
type clientConn struct {
	net.Conn
	early  []byte // read before, and not handed out yet
	gone   func()
	closed func(error)
	once   sync.Once
}

// Read reports the end of the connection as soon as it is seen.
func (c *clientConn) Read(p []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(p, c.early)
		c.early = c.early[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p)
	if err != nil {
		c.gone()
	}
	return n, err //nolint:wrapcheck // readers compare with io.EOF
}

// Close ends the connection. It may be called again, and returns nil always:
// spdystream keeps a goroutine for each error of it.
func (c *clientConn) Close() error {
	c.once.Do(func() {
		c.gone()
		if err := c.Conn.Close(); err != nil {
			c.closed(err)
		}
	})
	return nil
}
