package simrpc

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/intercept"
	"github.com/burstlet/burstlet/backend/sim/duplex"
)

// A forwarded connection travels in frames, so that its directions can end
// apart, and so that both sides always read and see at once when the other has
// gone: a part is sent only when it is wanted.
const (
	frameMore = byte('m') // another part is wanted
	frameData = byte('p') // a part
	frameEnd  = byte('z') // no more will be sent
	frameStop = byte('s') // no more will be read
)

type forwardClient struct{ c *client }

// Forward connects to a port of a pod. The end of the context is an error of the
// connection: the remote may have been asked.
func (f forwardClient) Forward(ctx context.Context, pod backend.Ref, port uint16) (net.Conn, error) {
	s, err := f.c.stream(ctx, intercept.ForwardForward, forwardRequest{pod, port}, http.StatusSwitchingProtocols)
	if err == nil && !s.stop() {
		_ = s.conn.Close()
		err = ctx.Err()
	}
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("forward to port %d of pod %s: %w", port, pod.UID, ctx.Err())
		}
		return nil, err
	}
	near, far := duplex.Pipe()
	go newTunnel(&frames{conn: s.conn, in: s.in}, far, far.Closed()).run()
	return near, nil
}

// serveForward connects, and carries the connection in frames.
func serveForward(w http.ResponseWriter, r *http.Request, b backend.Backend) {
	var req forwardRequest
	if !read(w, r, &req) {
		return
	}
	remote, err := b.Forward.Forward(r.Context(), req.Pod, req.Port)
	if err != nil {
		fail(w, ending(r.Context(), err))
		return
	}
	closeRemote := sync.OnceFunc(func() { _ = remote.Close() })
	defer closeRemote()
	conn, buf, err := hijack(w)
	if err != nil {
		return // the client has gone
	}
	defer context.AfterFunc(r.Context(), func() { _ = conn.Close(); closeRemote() })()
	newTunnel(&frames{conn: conn, in: raw(conn, buf)}, remote, nil).run()
}

// tunnel is one side of a forwarded connection.
type tunnel struct {
	frames *frames
	conn   net.Conn
	// closed is closed when the user of conn has closed it; nil: nobody can tell.
	closed <-chan struct{}
	// wanted are wishes of the other side, parts what it sent; nil is its end.
	wanted chan struct{}
	parts  chan []byte
	// gone is closed when the other side sends nothing any more.
	gone chan struct{}
}

func newTunnel(f *frames, conn net.Conn, closed <-chan struct{}) *tunnel {
	return &tunnel{
		frames: f, conn: conn, closed: closed,
		wanted: make(chan struct{}, 1), parts: make(chan []byte, 1), gone: make(chan struct{}),
	}
}

// run returns when both directions have ended, or one side has gone, with both
// connections closed.
func (t *tunnel) run() {
	var sending, writing sync.WaitGroup
	sending.Go(t.send)
	writing.Go(t.write)
	over := make(chan struct{})
	go func() { // who has closed conn waits for nothing more
		select {
		case <-t.closed:
		case <-over:
		}
		sending.Wait()
		_ = t.frames.conn.Close()
	}()
	go func() {
		sending.Wait()
		writing.Wait()
		close(over)
	}()
	if t.receive() {
		writing.Wait() // what was sent before a proper end still arrives
	}
	_ = t.conn.Close()
	writing.Wait()
	sending.Wait()
	<-over
}

// receive hands on frames until the other side has gone. It is true when that
// had ended what it sends.
func (t *tunnel) receive() (ended bool) {
	defer close(t.gone)
	for {
		kind, data, err := t.frames.read()
		if err != nil {
			return ended
		}
		switch kind {
		case frameMore:
			t.wanted <- struct{}{}
		case frameData:
			t.parts <- data
		case frameEnd:
			ended = true
			t.parts <- nil
		case frameStop:
			closeRead(t.conn)
		}
	}
}

// send sends what conn reads, a part each time it is wanted.
func (t *tunnel) send() {
	buf := make([]byte, maxFrame)
	for {
		select {
		case <-t.wanted:
		case <-t.closed: // nothing is left: a write to conn returns when it was read
			_ = t.frames.write(frameEnd, nil)
			return
		case <-t.gone:
			return
		}
		n, err := readSome(t.conn, buf)
		if n > 0 && t.frames.write(frameData, buf[:n]) != nil {
			return
		}
		if err != nil {
			_ = t.frames.write(frameEnd, nil) // how it broke is not carried
			return
		}
	}
}

// write writes to conn what the other side sends.
func (t *tunnel) write() {
	for {
		_ = t.frames.write(frameMore, nil) // where it fails, gone is closed
		var part []byte
		select {
		case part = <-t.parts:
		case <-t.gone:
			select {
			case part = <-t.parts:
			default:
				return
			}
		}
		if part == nil {
			closeWrite(t.conn)
			return
		}
		if _, err := t.conn.Write(part); err != nil {
			_ = t.frames.write(frameStop, nil)
			return
		}
	}
}

func closeRead(conn net.Conn) {
	if half, ok := conn.(interface{ CloseRead() error }); ok {
		_ = half.CloseRead()
	}
}
