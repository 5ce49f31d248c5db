package streaming

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	server "k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/burstlet/burstlet/backend"
)

// TestMain finds goroutines that are left. A look takes half a second, and there are
// many: spdystream keeps a goroutine for a second after a close that failed, and the
// server waits half a minute for the streams of a client that left early. One is
// the server's own: it waits for ever to answer for a stream that it has given up, when
// the client leaves before.
func TestMain(m *testing.M) {
	theirs := goleak.IgnoreAnyFunction("k8s.io/cri-streaming/pkg/streaming/portforward.(*httpStreamHandler).portForward")
	code := m.Run()
	if code == 0 {
		err := goleak.Find(theirs)
		for range 80 {
			if err != nil {
				err = goleak.Find(theirs)
			}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// process is what runs behind the fake runtime's streams.
type process struct {
	in       io.Reader
	out, err io.WriteCloser
	tty      bool
	resize   <-chan remotecommand.TerminalSize
}

// fakeRuntime runs functions; its server is the one that containerd is built with.
type fakeRuntime struct {
	exec, attach func(process) error
	forward      func(port int32, stream io.ReadWriteCloser) error
}

func (f *fakeRuntime) Exec(
	_ context.Context, _ string, _ []string, in io.Reader, out, err io.WriteCloser, tty bool,
	resize <-chan remotecommand.TerminalSize,
) error {
	return f.exec(process{in, out, err, tty, resize})
}

func (f *fakeRuntime) Attach(
	_ context.Context, _ string, in io.Reader, out, err io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize,
) error {
	return f.attach(process{in, out, err, tty, resize})
}

func (f *fakeRuntime) PortForward(_ context.Context, _ string, port int32, stream io.ReadWriteCloser) error {
	return f.forward(port, stream)
}

// world is a streaming server and a dialer that reaches it.
type world struct {
	t      *testing.T
	server server.Server
	// conns are those that were dialled, the latest last; cut cuts it.
	conns []net.Conn
	// dialErr fails dials.
	dialErr error
}

func newWorld(t *testing.T, runtime *fakeRuntime) *world {
	t.Helper()
	// It must not lead anywhere: the host's dialer does.
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "ALL_PROXY"} {
		t.Setenv(name, "http://192.0.2.1:9")
	}
	w := &world{t: t}
	cfg := server.DefaultConfig
	cfg.BaseURL = &url.URL{Scheme: "http"}
	var err error
	if w.server, err = server.NewServer(cfg, runtime); err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(w.server)
	t.Cleanup(ts.Close)
	cfg.BaseURL.Host = ts.Listener.Addr().String()
	return w
}

func (w *world) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if w.dialErr != nil {
		return nil, w.dialErr
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err == nil {
		w.conns = append(w.conns, conn)
	}
	return conn, err
}

// cut breaks the latest connection.
func (w *world) cut() { _ = w.conns[len(w.conns)-1].Close() }

func (w *world) execURL(spec backend.ExecSpec) string {
	w.t.Helper()
	in, out, errs := Needs(backend.AttachSpec{Stdin: spec.Stdin, Stderr: spec.Stderr, TTY: spec.TTY})
	reply, err := w.server.GetExec(&runtimeapi.ExecRequest{
		ContainerId: "c", Cmd: []string{"x"}, Tty: spec.TTY, Stdin: in, Stdout: out, Stderr: errs,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return reply.GetUrl()
}

func (w *world) exec(ctx context.Context, spec backend.ExecSpec) (int32, error) {
	w.t.Helper()
	return Exec(ctx, w, w.execURL(spec), spec)
}

func (w *world) attach(ctx context.Context, spec backend.AttachSpec) error {
	w.t.Helper()
	in, out, errs := Needs(spec)
	reply, err := w.server.GetAttach(&runtimeapi.AttachRequest{
		ContainerId: "c", Tty: spec.TTY, Stdin: in, Stdout: out, Stderr: errs,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return Attach(ctx, w, reply.GetUrl(), spec)
}

func (w *world) forward(ctx context.Context, port uint16) (net.Conn, error) {
	w.t.Helper()
	reply, err := w.server.GetPortForward(&runtimeapi.PortForwardRequest{PodSandboxId: "s", Port: []int32{int32(port)}})
	if err != nil {
		w.t.Fatal(err)
	}
	return Forward(ctx, w, reply.GetUrl(), port)
}

// exitError is an exit code, as runtimes have it.
type exitError int

func (e exitError) Error() string   { return "exited" }
func (e exitError) String() string  { return "exited" }
func (e exitError) Exited() bool    { return true }
func (e exitError) ExitStatus() int { return int(e) }

// await fails a test whose channel is not closed in time.
func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(3 * time.Minute):
		t.Fatalf("not within 3 min: %s", what)
	}
}

// never is an input on which nothing comes until the test ends.
func never(t *testing.T) io.Reader {
	r, w := io.Pipe()
	t.Cleanup(func() { w.Close() })
	return r
}

func wantClass(t *testing.T, err, class error) {
	t.Helper()
	if got, want := backend.Class(err), backend.Class(class); got != want {
		t.Errorf("error %v of class %q, want %q", err, got, want)
	}
}

func wantText(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want %q in it", err, text)
	}
}
