package kubeletapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/websocket"
	utilexec "k8s.io/client-go/util/exec"
	serving "k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/burstlet/burstlet/backend"
)

// streams are the client's; nil ones are not asked for by the test's query.
type streams struct {
	ctx            context.Context //nolint:containedctx // a parameter that may be left out
	stdin          io.Reader
	stdout, stderr io.Writer
	sizes          sizes
}

// sizes are those of a user's terminal, one after the other.
type sizes chan *remotecommand.TerminalSize

func (s sizes) Next() *remotecommand.TerminalSize { return <-s }

// command runs a client of exec or attach to its end.
func command(t *testing.T, s *served, protocol, path string, to streams) error {
	t.Helper()
	u, err := url.Parse(s.url + path)
	if err != nil {
		return err
	}
	var client remotecommand.Executor
	if protocol == "SPDY" {
		client, err = remotecommand.NewSPDYExecutor(s.client(), http.MethodPost, u)
	} else {
		client, err = remotecommand.NewWebSocketExecutorForProtocols(s.client(), http.MethodGet, u.String(), protocol)
	}
	if err != nil {
		return err
	}
	ctx := to.ctx
	if ctx == nil {
		ctx = t.Context()
	}
	q := u.Query()
	opts := remotecommand.StreamOptions{Stdin: to.stdin, Stdout: to.stdout, Stderr: to.stderr, Tty: q.Get("tty") == "1"}
	if opts.Stdout == nil && q.Get("output") == "1" {
		opts.Stdout = io.Discard
	}
	if to.sizes != nil {
		opts.TerminalSizeQueue = to.sizes
	}
	return client.StreamWithContext(ctx, opts)
}

var protocols = []string{"SPDY", "v4.channel.k8s.io"}

const execAll = "/exec/ns/p/c?command=sh&command=-c&command=cat&input=1&output=1&error=1"

func TestExec(t *testing.T) {
	engine := &fakeEngine{}
	s := streaming(t, engine, nil)
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			engine.exec = func(_ context.Context, pod backend.Ref, container string, spec backend.ExecSpec) (int32, error) {
				if diff := cmp.Diff(backend.Ref{Namespace: "ns", Name: "p"}, pod); diff != "" || container != "c" {
					t.Errorf("container %s of pod %s", container, diff)
				}
				if diff := cmp.Diff([]string{"sh", "-c", "cat"}, spec.Command); diff != "" || !spec.Live || spec.TTY ||
					spec.Resize != nil {
					t.Errorf("command %s, %+v", diff, spec)
				}
				line := make([]byte, 6)
				if _, err := io.ReadFull(spec.Stdin, line); err != nil {
					return 0, err
				}
				say(t, spec.Stdout, "out %s", line)
				say(t, spec.Stderr, "err %s", line)
				return 3, nil
			}
			var stdout, stderr bytes.Buffer
			stdin := io.MultiReader(strings.NewReader("hello\n"), never(t))
			err := command(t, s, protocol, execAll, streams{stdin: stdin, stdout: &stdout, stderr: &stderr})
			var exit utilexec.CodeExitError
			if !errors.As(err, &exit) || exit.Code != 3 || exit.Error() != "command terminated with exit code 3" {
				t.Errorf("got %v, want exit code 3", err)
			}
			if stdout.String() != "out hello\n" || stderr.String() != "err hello\n" {
				t.Errorf("stdout %q, stderr %q", &stdout, &stderr)
			}
		})
	}
}

// say writes what a command has to say.
func say(t *testing.T, w io.Writer, format string, args ...any) {
	t.Helper()
	if _, err := fmt.Fprintf(w, format, args...); err != nil {
		t.Error(err)
	}
}

// never is a reader on which nothing comes until the test ends.
func never(t *testing.T) io.Reader {
	r, w := io.Pipe()
	t.Cleanup(func() { w.Close() })
	return r
}

func TestExecPassesTheEndOfStdin(t *testing.T) {
	engine := &fakeEngine{}
	s := streaming(t, engine, nil)
	engine.exec = func(_ context.Context, pod backend.Ref, _ string, spec backend.ExecSpec) (int32, error) {
		if pod.UID != "the-uid" {
			t.Errorf("pod %+v", pod)
		}
		_, err := io.Copy(spec.Stdout, spec.Stdin)
		return 0, err
	}
	big := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB
	var stdout bytes.Buffer
	if err := command(t, s, "SPDY", "/exec/ns/p/the-uid/c?command=cat&input=1&output=1",
		streams{stdin: strings.NewReader(big), stdout: &stdout}); err != nil {
		t.Fatal(err)
	}
	if stdout.String() != big {
		t.Errorf("%d of %d bytes came back", stdout.Len(), len(big))
	}
}

func TestExecWithATerminal(t *testing.T) {
	engine := &fakeEngine{}
	s := streaming(t, engine, nil)
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			engine.exec = func(ctx context.Context, _ backend.Ref, _ string, spec backend.ExecSpec) (int32, error) {
				if !spec.TTY || spec.Stderr != nil || spec.Stdin == nil || spec.Resize == nil {
					t.Errorf("%+v", spec)
					return 1, nil
				}
				for range 2 {
					say(t, spec.Stdout, "%v", <-spec.Resize)
				}
				return 0, nil
			}
			to := streams{stdin: never(t), sizes: make(sizes, 3)}
			to.sizes <- &remotecommand.TerminalSize{Width: 80, Height: 24}
			to.sizes <- &remotecommand.TerminalSize{Width: 100, Height: 40}
			to.sizes <- nil // the end
			var stdout bytes.Buffer
			to.stdout = &stdout
			if err := command(t, s, protocol, "/exec/ns/p/c?command=sh&input=1&output=1&error=1&tty=1", to); err != nil {
				t.Fatal(err)
			}
			if got := stdout.String(); got != "{80 24}{100 40}" {
				t.Errorf("sizes %q", got)
			}
		})
	}
}

func TestExecTellsWhyItFailed(t *testing.T) {
	engine := &fakeEngine{}
	s := streaming(t, engine, nil)
	engine.exec = func(context.Context, backend.Ref, string, backend.ExecSpec) (int32, error) {
		return 0, backend.Errorf(backend.ErrInvalid, `exec: "nonsense": executable file not found in $PATH`)
	}
	for _, protocol := range protocols {
		err := command(t, s, protocol, execAll, streams{stdin: never(t), stdout: io.Discard, stderr: io.Discard})
		const want = `error executing command in container: exec: "nonsense": executable file not found in $PATH`
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", protocol, err, want)
		}
	}
	engine.refuse(backend.Errorf(backend.ErrNotFound, "container not found (%q)", "c"))
	for _, protocol := range protocols {
		err := command(t, s, protocol, execAll, streams{stdin: never(t), stdout: io.Discard, stderr: io.Discard})
		if err == nil || !strings.Contains(err.Error(), `container not found ("c")`) {
			t.Errorf("%s: got %v", protocol, err)
		}
	}
}

// TestStreamsEndWithTheConnection: a command whose user has gone is ended, and one
// on whose streams nothing moves.
func TestStreamsEndWithTheConnection(t *testing.T) {
	idle := func(c *Config) { c.StreamIdleTimeout = 4 * time.Second } // SPDY clients ping each 5 s
	for name, change := range map[string]func(*Config){"gone": nil, "idle": idle} {
		for _, protocol := range protocols {
			for _, call := range []string{"exec", "attach"} {
				t.Run(strings.Join([]string{name, protocol, call}, " "), func(t *testing.T) {
					t.Parallel()
					engine := &fakeEngine{}
					began, ended := make(chan struct{}), make(chan struct{})
					wait := func(ctx context.Context, stdout io.Writer) error {
						say(t, stdout, "begins")
						<-ctx.Done()
						close(ended)
						return ctx.Err()
					}
					engine.exec = func(ctx context.Context, _ backend.Ref, _ string, spec backend.ExecSpec) (int32, error) {
						return 0, wait(ctx, spec.Stdout)
					}
					engine.attach = func(ctx context.Context, _ backend.Ref, _ string, spec backend.AttachSpec) error {
						return wait(ctx, spec.Stdout)
					}
					s := streaming(t, engine, change)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					failed := make(chan error, 1)
					go func() {
						failed <- command(t, s, protocol, "/"+call+"/ns/p/c?command=a&input=1&output=1",
							streams{ctx: ctx, stdin: never(t), stdout: firstWrite{began}})
					}()
					await(t, "the command", began)
					if change == nil {
						cancel()
					}
					await(t, "its end", ended)
					// What the client makes of an idle connection's end is its own affair.
					if err := await(t, "the client's end", failed); err == nil && change == nil {
						t.Error("the client was told of success")
					}
				})
			}
		}
	}
}

// firstWrite closes a channel at the first and only thing that is written.
type firstWrite struct{ seen chan<- struct{} }

func (w firstWrite) Write(p []byte) (int, error) {
	close(w.seen)
	return len(p), nil
}

// TestExecOverRawChannels: what the API server passes through for clients that
// speak neither SPDY nor a numbered protocol.
func TestExecOverRawChannels(t *testing.T) {
	engine := &fakeEngine{}
	s := streaming(t, engine, nil)
	engine.exec = func(_ context.Context, _ backend.Ref, _ string, spec backend.ExecSpec) (int32, error) {
		line := make([]byte, 3)
		if _, err := io.ReadFull(spec.Stdin, line); err != nil {
			return 0, err
		}
		_, err := spec.Stdout.Write(bytes.ToUpper(line))
		return 3, err
	}
	const failure = "command terminated with non-zero exit code: exit code 3"
	encode := base64.StdEncoding.EncodeToString
	for _, tc := range []struct {
		protocol, stdin string
		want            []string
	}{
		{"channel.k8s.io", "\x00abc", []string{"\x01", "\x01ABC", "\x03" + failure}},
		{"base64.channel.k8s.io", "0" + encode([]byte("abc")), []string{
			"1", "1" + encode([]byte("ABC")), "3" + encode([]byte(failure)),
		}},
	} {
		t.Run(tc.protocol, func(t *testing.T) {
			conn := s.webSocket(t, "/exec/ns/p/c?command=a&input=1&output=1", tc.protocol)
			if err := conn.WriteMessage(binaryMessage, []byte(tc.stdin)); err != nil {
				t.Fatal(err)
			}
			for _, want := range tc.want {
				if _, got, err := conn.ReadMessage(); err != nil || string(got) != want {
					t.Fatalf("got %q, %v, want %q", got, err, want)
				}
			}
			if _, got, err := conn.ReadMessage(); err == nil {
				t.Errorf("after the end: %q", got)
			}
		})
	}
}

const binaryMessage = 2 // RFC 6455

// socket is what tests need of a WebSocket.
type socket interface {
	WriteMessage(kind int, data []byte) error
	ReadMessage() (kind int, data []byte, err error)
}

// webSocket opens a WebSocket that ends with the test.
func (s *served) webSocket(t *testing.T, path, protocol string) socket {
	t.Helper()
	rt, holder, err := websocket.RoundTripperFor(s.client())
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := websocket.Negotiate(rt, holder, req, protocol)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestAttach(t *testing.T) {
	engine := &fakeEngine{}
	s := streaming(t, engine, nil)
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			engine.attach = func(_ context.Context, pod backend.Ref, container string, spec backend.AttachSpec) error {
				if diff := cmp.Diff(backend.Ref{Namespace: "ns", Name: "p", UID: "u"}, pod); diff != "" || container != "c" ||
					spec.Stdin != nil {
					t.Errorf("container %s of pod %s, %+v", container, diff, spec)
				}
				say(t, spec.Stdout, "out")
				say(t, spec.Stderr, "err")
				return nil
			}
			var stdout, stderr bytes.Buffer
			if err := command(
				t, s, protocol, "/attach/ns/p/u/c?output=1&error=1", streams{stdout: &stdout, stderr: &stderr},
			); err != nil {
				t.Fatal(err)
			}
			if stdout.String() != "out" || stderr.String() != "err" {
				t.Errorf("stdout %q, stderr %q", &stdout, &stderr)
			}
			engine.attach = func(context.Context, backend.Ref, string, backend.AttachSpec) error {
				return errors.New("host is away")
			}
			err := command(t, s, protocol, "/attach/ns/p/c?output=1", streams{})
			if err == nil || !strings.Contains(err.Error(), "error attaching to container: host is away") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestRun(t *testing.T) {
	engine := &fakeEngine{}
	s := streaming(t, engine, nil)
	var code int32
	engine.exec = func(_ context.Context, pod backend.Ref, container string, spec backend.ExecSpec) (int32, error) {
		if spec.Live {
			t.Error("output is asked for as it comes, which nobody sees")
		}
		say(t, spec.Stderr, "%v", spec.Command)
		say(t, spec.Stdout, "%s/%s ", pod.UID, container)
		return code, nil
	}
	resp := s.ask(t, http.MethodPost, "/run/ns/p/u/c?cmd=ls+-l", nil)
	if text := body(t, resp); resp.StatusCode != http.StatusOK || text != "u/c [ls -l]" {
		t.Errorf("got %d %q", resp.StatusCode, text)
	}
	code = 3
	resp = s.ask(t, http.MethodPost, "/run/ns/p/c?cmd=ls+-l", nil)
	if text := body(t, resp); resp.StatusCode != http.StatusInternalServerError ||
		text != "command 'ls -l' exited with 3: [ls -l]" {
		t.Errorf("got %d %q", resp.StatusCode, text)
	}
}

// TestSizesEndWithTheirCommand: what passes them on has ended when end returns, also
// where nobody takes a size that has come.
func TestSizesEndWithTheirCommand(t *testing.T) {
	from := make(chan serving.TerminalSize)
	for name, size := range map[string]bool{"without a size": false, "with one": true} {
		sizes, end := terminalSizes(t.Context(), from)
		if size {
			from <- serving.TerminalSize{Width: 80, Height: 24}
		}
		end()
		select {
		case got, open := <-sizes:
			if open {
				t.Errorf("%s: %v came after the end", name, got)
			}
		default:
			t.Errorf("%s: it goes on after its end", name)
		}
	}
}
