package link

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// segmentBytes is how much is read at a time.
	segmentBytes = 32 << 10
	// segmentsUnderWay bounds what a delayed or cut connection holds, as a
	// network does.
	segmentsUnderWay = 128
)

// passage is one connection through a link.
type passage struct {
	link *Link
	near net.Conn // towards the client

	mu    sync.Mutex
	far   net.Conn // towards the far side; nil until it is dialled
	ended bool
	done  chan struct{} // closed at the end
}

// segment is something under way in one direction.
type segment struct {
	data []byte
	due  time.Time
	end  error // io.EOF: the sender has no more; another error: it was reset
}

// run passes everything on until both directions ended.
func (p *passage) run() {
	var reading sync.WaitGroup
	defer reading.Wait()
	defer p.end(false)
	sent, gone := make(chan segment, segmentsUnderWay), make(chan struct{})
	reading.Go(func() {
		defer close(gone)
		p.read(p.near, sent)
	})
	if !p.connecting(gone) {
		return
	}
	far, err := p.dial()
	if err != nil || !p.setFar(far) {
		p.reset()
		return
	}
	received := make(chan segment, segmentsUnderWay)
	reading.Go(func() { p.read(far, received) })
	var both sync.WaitGroup
	both.Go(func() { p.carry(sent, far, true) })
	both.Go(func() { p.carry(received, p.near, false) })
	both.Wait()
}

// connecting takes the time that a connection takes to be one, and says whether
// it became one. A client that gave up while the link was cut was never heard of.
func (p *passage) connecting(gone <-chan struct{}) bool {
	if p.link.isCut() {
		restored := make(chan bool, 1)
		p.link.running.Go(func() { restored <- p.link.pass(p.done) })
		select {
		case <-gone:
			p.reset()
			return false
		case <-restored:
		}
	}
	return p.wait(time.Now().Add(2 * p.link.eachWay()))
}

// dial ends with the passage.
func (p *passage) dial() (net.Conn, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p.link.running.Go(func() {
		select {
		case <-p.done:
			cancel()
		case <-ctx.Done():
		}
	})
	return p.link.dial(ctx)
}

// setFar says whether the passage still goes on.
func (p *passage) setFar(far net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.far = far
	if p.ended {
		abort(far)
	}
	return !p.ended
}

// carry passes on one direction until it ended, and then that it did.
func (p *passage) carry(segments <-chan segment, to net.Conn, sent bool) {
	for s := range segments {
		if !p.wait(s.due) {
			return
		}
		var err error
		switch {
		case s.end == nil:
			_, err = to.Write(s.data)
			if err == nil {
				p.link.count(len(s.data), sent)
			}
		case errors.Is(s.end, io.EOF):
			err = closeWrite(to)
		default:
			err = s.end
		}
		if err != nil {
			p.reset()
			return
		}
	}
}

// read takes segments as they come, and closes the channel after the last.
func (p *passage) read(from net.Conn, segments chan<- segment) {
	defer close(segments)
	buffer := make([]byte, segmentBytes)
	for {
		n, err := from.Read(buffer)
		now := time.Now()
		if n > 0 {
			data := append([]byte(nil), buffer[:n]...)
			if !p.send(segments, segment{data: data, due: now.Add(p.link.eachWay())}) {
				return
			}
		}
		if err != nil {
			p.send(segments, segment{end: err, due: now.Add(p.link.eachWay())})
			return
		}
	}
}

// send says whether the passage still goes on.
func (p *passage) send(segments chan<- segment, s segment) bool {
	select {
	case segments <- s:
		return true
	case <-p.done:
		return false
	}
}

// wait waits for a time and then for the link to be whole, and says whether the
// passage still goes on.
func (p *passage) wait(due time.Time) bool {
	if left := time.Until(due); left > 0 {
		timer := time.NewTimer(left)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-p.done:
			return false
		}
	}
	return p.link.pass(p.done)
}

// reset ends the passage at once, on both sides.
func (p *passage) reset() { p.end(true) }

func (p *passage) end(reset bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	close(p.done)
	for _, conn := range []net.Conn{p.near, p.far} {
		switch {
		case conn == nil:
		case reset:
			abort(conn)
		default:
			_ = conn.Close() // both directions ended: nothing is lost
		}
	}
	p.link.forget(p)
}

// abort closes a connection with a reset instead of an orderly end.
func abort(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // it may be closed already
	}
	_ = conn.Close() // it is given up
}

// closeWrite passes a half-close on.
func closeWrite(conn net.Conn) error {
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.New("connection cannot be closed in one direction")
	}
	return half.CloseWrite()
}
