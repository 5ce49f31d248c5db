package cri

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
)

// fakeStreams is what runs behind the fake runtime's streaming server: one function
// for commands and attachments, and one for ports.
type fakeStreams struct {
	session func(in io.Reader, out, errs io.Writer, tty bool) error
	forward func(sandbox string, port int32, stream io.ReadWriter) error
}

func (f fakeStreams) Exec(
	_ context.Context, _ string, _ []string, in io.Reader, out, errs io.WriteCloser, tty bool,
	_ <-chan remotecommand.TerminalSize,
) error {
	return f.session(in, out, errs, tty)
}

func (f fakeStreams) Attach(
	_ context.Context, _ string, in io.Reader, out, errs io.WriteCloser, tty bool, _ <-chan remotecommand.TerminalSize,
) error {
	return f.session(in, out, errs, tty)
}

func (f fakeStreams) PortForward(_ context.Context, sandbox string, port int32, stream io.ReadWriteCloser) error {
	return f.forward(sandbox, port, stream)
}

// streamingWorld is a running container on a fake runtime that serves streams.
func streamingWorld(t *testing.T, f fakeStreams) (w *world, r *remote, c backend.ContainerRef) {
	t.Helper()
	cfg := streaming.DefaultConfig
	cfg.BaseURL = &url.URL{Scheme: "http"}
	server, err := streaming.NewServer(cfg, f)
	must(t, err)
	ts := httptest.NewServer(server)
	t.Cleanup(ts.Close)
	cfg.BaseURL.Host = ts.Listener.Addr().String()
	w = newWorld(t, func(s *fakecri.Server) { s.Streaming = server })
	r, _ = w.connect(t)
	return w, r, backend.ContainerRef{Pod: runPod(t, r, testPod("u1"), "main"), Name: "main"}
}

func TestExecStreamsWhatIsWatched(t *testing.T) {
	w, r, c := streamingWorld(t, fakeStreams{session: func(in io.Reader, out, errs io.Writer, tty bool) error {
		_, err := fmt.Fprintf(out, "tty %t, errors %t", tty, errs != nil)
		if in != nil && err == nil {
			_, err = io.Copy(out, in)
		}
		return err
	}})
	for name, tt := range map[string]struct {
		spec backend.ExecSpec
		out  string
	}{
		"live":                  {backend.ExecSpec{Live: true}, "tty false, errors false"},
		"live with errors":      {backend.ExecSpec{Live: true, Stderr: io.Discard}, "tty false, errors true"},
		"input":                 {backend.ExecSpec{Stdin: strings.NewReader(", in")}, "tty false, errors false, in"},
		"a terminal":            {backend.ExecSpec{TTY: true}, "tty true, errors false"},
		"a terminal has no two": {backend.ExecSpec{TTY: true, Stderr: io.Discard}, "tty true, errors false"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			tt.spec.Command, tt.spec.Stdout = []string{"a"}, &out
			if code, err := r.sessions.Exec(t.Context(), c, tt.spec); err != nil || code != 0 || out.String() != tt.out {
				t.Errorf("%d, %v, %q, want %q", code, err, &out, tt.out)
			}
		})
	}
	if n := w.fake.Calls("ExecSync"); n != 0 {
		t.Errorf("%d went another way", n)
	}
}

// The words on the streams are classed as those of ExecSync.
func TestExecStreamErrors(t *testing.T) {
	const runc = "failed to exec in container: failed to start exec: OCI runtime exec failed: exec failed: unable to " +
		"start container process: "
	var fake *fakecri.Server
	for name, tt := range map[string]struct {
		fail func(id string) error
		want error
	}{
		"not in the image": {
			func(string) error { return errors.New(runc + `exec: "x": executable file not found in $PATH: unknown`) },
			backend.ErrInvalid,
		},
		"something else": {func(string) error { return errors.New(runc + "resource temporarily unavailable") }, nil},
		"its container has ended": {func(id string) error {
			fake.Exit(id, 0, "Completed")
			return errors.New("container is in CONTAINER_EXITED state")
		}, backend.ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			var id string
			w, r, c := streamingWorld(
				t, fakeStreams{session: func(io.Reader, io.Writer, io.Writer, bool) error { return tt.fail(id) }},
			)
			fake = w.fake
			id, _ = fake.Container("main")
			_, err := r.sessions.Exec(t.Context(), c, backend.ExecSpec{Command: []string{"x"}, Live: true})
			want := "Transient"
			if tt.want != nil {
				want = backend.Class(tt.want)
			}
			if backend.Class(err) != want || strings.Contains(err.Error(), "Internal error") {
				t.Errorf("%s: %v, want %s", backend.Class(err), err, want)
			}
		})
	}
}

func TestStreamsWhereNothingRuns(t *testing.T) {
	w, r, c := streamingWorld(t, fakeStreams{})
	calls := func(c backend.ContainerRef) map[string]error {
		_, execErr := r.sessions.Exec(t.Context(), c, backend.ExecSpec{Command: []string{"a"}, Live: true})
		return map[string]error{"exec": execErr, "attach": r.sessions.Attach(t.Context(), c, backend.AttachSpec{})}
	}
	id, _ := w.fake.Container("main")
	w.fake.Exit(id, 0, "Completed")
	byID := c
	byID.ID = id
	other := c
	other.Name = "other"
	unknown := c
	unknown.ID = "no-such-id"
	for name, ref := range map[string]backend.ContainerRef{
		"ended": c, "ended, by id": byID, "no such": other, "no such id": unknown,
	} {
		for what, err := range calls(ref) {
			if backend.Class(err) != "NotFound" {
				t.Errorf("%s, %s: %s: %v, want NotFound", name, what, backend.Class(err), err)
			}
		}
	}
}

// Output that nobody takes says nothing of the container.
func TestExecStreamWithABrokenReader(t *testing.T) {
	var fake *fakecri.Server
	w, r, c := streamingWorld(t, fakeStreams{session: func(_ io.Reader, out, _ io.Writer, _ bool) error {
		id, _ := fake.Container("main")
		fake.Exit(id, 0, "Completed")
		_, err := io.WriteString(out, "x")
		return err
	}})
	fake = w.fake
	_, err := r.sessions.Exec(
		t.Context(), c, backend.ExecSpec{Command: []string{"a"}, Live: true, Stdout: failingWriter{syscall.EPIPE}},
	)
	if !errors.Is(err, syscall.EPIPE) || backend.Class(err) != "Transient" {
		t.Errorf("%s: %v", backend.Class(err), err)
	}
}

func TestStreamsEndWithTheirContext(t *testing.T) {
	release := make(chan struct{})
	_, r, c := streamingWorld(t, fakeStreams{session: func(io.Reader, io.Writer, io.Writer, bool) error {
		<-release
		return nil
	}})
	for name, call := range map[string]func(context.Context) error{
		"exec": func(ctx context.Context) error {
			_, err := r.sessions.Exec(ctx, c, backend.ExecSpec{Command: []string{"a"}, Live: true})
			return err
		},
		"attach": func(ctx context.Context) error { return r.sessions.Attach(ctx, c, backend.AttachSpec{}) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) || backend.Class(err) != "Transient" {
			t.Errorf("%s: %s: %v", name, backend.Class(err), err)
		}
		cancel()
	}
	close(release)
}

func TestAttach(t *testing.T) {
	_, r, c := streamingWorld(t, fakeStreams{session: func(in io.Reader, out, errs io.Writer, _ bool) error {
		_, err := io.Copy(out, in)
		_, err2 := io.WriteString(errs, "error")
		return errors.Join(err, err2)
	}})
	var out, errs bytes.Buffer
	err := r.sessions.Attach(
		t.Context(), c, backend.AttachSpec{Stdin: strings.NewReader("text"), Stdout: &out, Stderr: &errs},
	)
	if err != nil || out.String() != "text" || errs.String() != "error" {
		t.Errorf("%v, %q, %q", err, &out, &errs)
	}
}

func TestForward(t *testing.T) {
	var forwarded string
	w, r, c := streamingWorld(t, fakeStreams{forward: func(sandbox string, port int32, stream io.ReadWriter) error {
		forwarded = fmt.Sprint(sandbox, " ", port)
		_, err := io.Copy(stream, stream)
		return err
	}})
	live := inspect(t, r, "u1").Ref
	for name, ref := range map[string]backend.Ref{"by its id": live, "looked up": c.Pod} {
		conn, err := r.sessions.Forward(t.Context(), ref, 8080)
		must(t, err)
		if _, err := io.WriteString(conn, "ping"); err != nil {
			t.Error(err)
		}
		got := make([]byte, 4)
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != "ping" || forwarded != live.ID+" 8080" {
			t.Errorf("%s: %q, %v, forwarded to %s", name, got, err, forwarded)
		}
		must(t, conn.Close())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.sessions.Forward(ctx, c.Pod, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	_, err := w.fake.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: live.ID})
	must(t, err)
	for name, ref := range map[string]backend.Ref{
		"ended, by its id": live, "ended": c.Pod, "no such pod": {UID: "u2"}, "no such id": {UID: "u1", ID: "x"},
	} {
		_, err := r.sessions.Forward(t.Context(), ref, 1)
		if backend.Class(err) != "NotFound" {
			t.Errorf("%s: %s: %v, want NotFound", name, backend.Class(err), err)
		}
	}
}

func TestForwardRefused(t *testing.T) {
	_, r, c := streamingWorld(t, fakeStreams{forward: func(_ string, port int32, stream io.ReadWriter) error {
		// It waits until the client knows that there is a stream.
		if _, err := stream.Write(nil); err != nil {
			return err
		}
		return fmt.Errorf("dial tcp4 127.0.0.1:%d: connect: connection refused", port)
	}})
	conn, err := r.sessions.Forward(t.Context(), c.Pod, 7001)
	must(t, err)
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNREFUSED) || backend.Class(err) != "Transient" {
		t.Errorf("%s: %v", backend.Class(err), err)
	}
}

// The way to the streaming server may be down while that to the runtime is not.
func TestStreamsWithoutAWayThere(t *testing.T) {
	_, r, c := streamingWorld(t, fakeStreams{})
	r.sessions.Streams = noWay{}
	_, execErr := r.sessions.Exec(t.Context(), c, backend.ExecSpec{Command: []string{"a"}, Live: true})
	_, forwardErr := r.sessions.Forward(t.Context(), c.Pod, 1)
	attachErr := r.sessions.Attach(t.Context(), c, backend.AttachSpec{})
	for what, err := range map[string]error{"exec": execErr, "attach": attachErr, "forward": forwardErr} {
		if backend.Class(err) != "Unavailable" || !strings.Contains(err.Error(), "no way") {
			t.Errorf("%s: %s: %v", what, backend.Class(err), err)
		}
	}
}

type noWay struct{}

func (noWay) DialContext(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("no way")
}
