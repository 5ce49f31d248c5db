// Package duplex makes connections in memory whose two directions end apart, as
// those of TCP do. net.Pipe's end together.
package duplex

import (
	"errors"
	"net"
	"sync"
	"time"
)

// Pipe returns the two ends of a connection without a buffer: a Write returns
// when the other end has read all of it. It works in virtual time.
func Pipe() (near, far *Conn) {
	upRead, upWrite := net.Pipe()
	downRead, downWrite := net.Pipe()
	closed := make(chan struct{})
	hang := sync.OnceFunc(func() { close(closed) })
	return &Conn{downRead, upWrite, closed, hang}, &Conn{upRead, downWrite, closed, hang}
}

// Conn is one end. It implements net.Conn.
type Conn struct {
	in, out net.Conn
	closed  <-chan struct{}
	hang    func()
}

// Closed is closed with either end, by Close.
func (c *Conn) Closed() <-chan struct{} { return c.closed }

// Read returns io.EOF when the other end has ended what it writes, or closed.
func (c *Conn) Read(data []byte) (int, error) { return c.in.Read(data) }

// Write fails with io.ErrClosedPipe when the other end reads no more.
func (c *Conn) Write(data []byte) (int, error) { return c.out.Write(data) }

// CloseWrite ends what the other end reads.
func (c *Conn) CloseWrite() error { return c.out.Close() }

// CloseRead makes the other end's writes fail.
func (c *Conn) CloseRead() error { return c.in.Close() }

// Close ends both directions.
func (c *Conn) Close() error {
	c.hang()
	return errors.Join(c.out.Close(), c.in.Close())
}

// LocalAddr is a placeholder.
func (c *Conn) LocalAddr() net.Addr { return addr{} }

// RemoteAddr is a placeholder.
func (c *Conn) RemoteAddr() net.Addr { return addr{} }

// SetDeadline bounds reads and writes.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline bounds reads.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.in.SetReadDeadline(t) }

// SetWriteDeadline bounds writes.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.out.SetWriteDeadline(t) }

type addr struct{}

func (addr) Network() string { return "tcp" }
func (addr) String() string  { return "simulated" }
