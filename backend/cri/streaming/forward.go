package streaming

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

const (
	// wordsGrace is how long the data and the words about it wait for each other's
	// end: they travel on streams of their own.
	wordsGrace = time.Second
	// flushTimeout bounds how long Close waits for what was written to be sent.
	flushTimeout = time.Second
)

// Forward connects to a port of a pod by a URL that CRI's PortForward returned. The
// context is that of connecting alone. The connection takes deadlines and has
// CloseWrite; whoever got it closes it.
//
// The protocol does not say that the pod was reached, only that it was not, in most cases
// later: a refused connection shows in Read, and in Write from then on, or here, as an
// [Error] that is a syscall.ECONNREFUSED. Other errors: the context's; Unavailable when the
// runtime cannot be reached or broke off.
func Forward(ctx context.Context, dial host.Dialer, url string, port uint16) (net.Conn, error) {
	header := func(kind string) http.Header {
		return http.Header{
			http.CanonicalHeaderKey(corev1.StreamType):                 {kind},
			http.CanonicalHeaderKey(corev1.PortHeader):                 {strconv.Itoa(int(port))},
			http.CanonicalHeaderKey(corev1.PortForwardRequestIDHeader): {"0"}, // one on each connection
		}
	}
	s, err := open(
		ctx, dial, url, portforward.ProtocolV1Name, header(corev1.StreamTypeError), header(corev1.StreamTypeData),
	)
	var early *notOpenedError
	if errors.As(err, &early) && early.words != "" {
		return nil, &Error{strings.TrimSpace(early.words)}
	}
	if err != nil {
		return nil, err
	}
	c := newForwarded(s, s.each[0], s.each[1])
	c.port = port
	return c, nil
}

// forwarded is a connection to a port. Its two directions are pipes, which bring
// deadlines, and goroutines that carry them over streams.
type forwarded struct {
	port    uint16
	streams *streams
	words   httpstream.Stream // the runtime's, when it fails
	data    httpstream.Stream

	// The near ends are the user's, the far ends those of the goroutines.
	in, out       net.Conn
	farIn, farOut net.Conn

	// spoken is closed when the words have ended, received when the data has.
	spoken, received chan struct{}
	text             string // once spoken

	mu     sync.Mutex
	ended  error // why nothing more is read; io.EOF is well
	over   error // why nothing more is written
	closed bool

	sending, receiving sync.WaitGroup
}

func newForwarded(s *streams, words, data httpstream.Stream) *forwarded {
	c := &forwarded{
		streams: s, words: words, data: data,
		spoken: make(chan struct{}), received: make(chan struct{}),
	}
	c.in, c.farIn = net.Pipe()
	c.out, c.farOut = net.Pipe()
	c.receiving.Go(c.listen)
	c.receiving.Go(c.receive)
	c.sending.Go(c.send)
	return c
}

// listen reads what the runtime has to say. After an error there is no more data,
// whether or not that has an end of its own.
func (c *forwarded) listen() {
	// A stream's only error is its end.
	text, _ := io.ReadAll(io.LimitReader(c.words, maxStatus))
	c.text = string(text)
	close(c.spoken)
	if c.text == "" || arrives(c.received, wordsGrace) {
		return
	}
	_ = c.data.Reset()
}

// receive carries data to the user, and then why it ended.
func (c *forwarded) receive() {
	_, err := io.Copy(c.farIn, c.data)
	close(c.received)
	if err != nil {
		return // the user has closed the connection
	}
	spoken := arrives(c.spoken, wordsGrace)
	ended := io.EOF
	switch {
	case spoken && c.text != "":
		ended = &Error{strings.TrimSpace(c.text)}
	case c.streams.over():
		ended = backend.Errorf(
			backend.ErrUnavailable, "the container runtime broke off the connection: %w", io.ErrUnexpectedEOF,
		)
	}
	c.finish(ended, spoken)
	_ = c.farIn.Close()
	if !spoken {
		<-c.spoken // the pod may still listen until then
		c.finish(ended, true)
	}
	_ = c.farOut.Close()
}

// finish sets what reads, and when all is over writes, return from now on.
func (c *forwarded) finish(ended error, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = ended
	switch {
	case over && errors.Is(ended, io.EOF):
		c.over = syscall.EPIPE
	case over:
		c.over = ended
	}
}

// send carries what the user writes, and its end.
func (c *forwarded) send() {
	_, err := io.Copy(c.data, c.farOut)
	if err != nil {
		// The connection broke, which shows in Read: write into the void until then.
		_, _ = io.Copy(io.Discard, c.farOut)
		return
	}
	_ = c.data.Close()
}

// arrives is true when a channel is closed before so long.
func arrives(c <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
		return false
	}
}

// Read returns what the pod sends.
func (c *forwarded) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	if err == nil || n > 0 {
		return n, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case errors.Is(err, io.EOF):
		return 0, c.ended
	default:
		return 0, err //nolint:wrapcheck // a deadline's, which callers compare
	}
}

// Write sends to the pod. It returns when all has been taken up, as by a socket.
func (c *forwarded) Write(p []byte) (int, error) {
	if err := c.cannotWrite(); err != nil {
		return 0, err
	}
	n, err := c.out.Write(p)
	if errors.Is(err, io.ErrClosedPipe) {
		if why := c.cannotWrite(); why != nil {
			return n, why
		}
		return n, net.ErrClosed
	}
	return n, err //nolint:wrapcheck // a deadline's, which callers compare
}

// cannotWrite is why nothing more can be written, nil as long as it can.
func (c *forwarded) cannotWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	return c.over
}

// CloseWrite ends what is sent. How long the pod may then still answer is up to the
// runtime: containerd gives it a second.
func (c *forwarded) CloseWrite() error { return c.out.Close() }

// Close ends the connection, and returns when all of it has gone.
func (c *forwarded) Close() error {
	c.mu.Lock()
	again := c.closed
	c.closed = true
	c.mu.Unlock()
	if again {
		return net.ErrClosed
	}
	_, _ = c.in.Close(), c.out.Close() // pipes' cannot fail
	_ = c.streams.link.SetWriteDeadline(time.Now().Add(flushTimeout))
	c.sending.Wait()
	c.streams.end()
	c.receiving.Wait()
	return nil
}

// LocalAddr is that of the connection to the runtime.
func (c *forwarded) LocalAddr() net.Addr { return c.streams.link.LocalAddr() }

// RemoteAddr is the port, on the pod's loopback interface.
func (c *forwarded) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(c.port)}
}

// SetDeadline bounds reads and writes.
func (c *forwarded) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline bounds reads, the one under way too.
func (c *forwarded) SetReadDeadline(t time.Time) error {
	if err := c.in.SetReadDeadline(t); err != nil {
		return fmt.Errorf("set read deadline: %w", net.ErrClosed)
	}
	return nil
}

// SetWriteDeadline bounds writes, the one under way too.
func (c *forwarded) SetWriteDeadline(t time.Time) error {
	if err := c.out.SetWriteDeadline(t); err != nil {
		return fmt.Errorf("set write deadline: %w", net.ErrClosed)
	}
	return nil
}
