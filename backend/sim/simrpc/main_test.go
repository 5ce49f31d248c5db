package simrpc

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/test/kit/background"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pipes is a socket in memory, for virtual time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "pipes"} }

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-p.closed:
		return nil, errors.New("nobody listens")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// world is a server in memory and how to connect to it.
type world struct {
	t      testing.TB
	pipes  *pipes
	end    context.CancelFunc
	served chan error
}

// serve serves a backend until the test ends, or until stop.
func serve(t testing.TB, open func(node string) backend.Backend) *world {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	w := &world{t: t, pipes: newPipes(), end: cancel, served: make(chan error, 1)}
	s := &Server{Open: open, Version: "test"}
	go func() {
		w.served <- s.Serve(ctx, w.pipes)
		close(w.served)
	}()
	t.Cleanup(w.stop)
	return w
}

func (w *world) stop() {
	w.t.Helper()
	w.end()
	if err := <-w.served; err != nil {
		w.t.Errorf("serve: %v", err)
	}
}

// connect connects as a node, without running the connection.
func (w *world) connect(node string) backend.Backend {
	w.t.Helper()
	b, err := Connect(
		w.t.Context(), Config{Node: node, Version: "test", Check: takesAll, May: backend.Always, dial: w.pipes.dial},
	)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

var takesAll = backend.CheckFunc(func(*corev1.Pod) []backend.Refusal { return nil })

// running connects, and runs the connection until the test ends.
func (w *world) running(node string) backend.Backend {
	w.t.Helper()
	b := w.connect(node)
	run(w.t, b)
	return b
}

// run runs a connection until the test ends, and waits until it is there. It is
// for virtual time.
func run(t testing.TB, b backend.Backend) {
	background.Run(t, b.RunFreely)
	synctest.Wait()
}

func wantClass(t testing.TB, err error, want string) {
	t.Helper()
	if got := backend.Class(err); got != want {
		t.Errorf("class %q (%v), want %q", got, err, want)
	}
}
