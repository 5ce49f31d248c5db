package helper

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/test/kit/filled"
)

func TestLogRequestArrivesWhole(t *testing.T) {
	var got host.LogRequest
	c := started(t, &fakeHost{log: func(_ context.Context, r host.LogRequest) (io.ReadCloser, error) {
		got = r
		return io.NopCloser(strings.NewReader("words")), nil
	}})
	for _, want := range []host.LogRequest{
		{},
		{Path: "/a", Timestamps: true, Tail: new(int64), LimitBytes: new(int64(5)), Since: time.Unix(7, 9).UTC()},
		{Path: "/a", Follow: true, Ended: make(chan struct{})},
		{Path: "/a", Follow: true},
	} {
		log, err := c.Log(t.Context(), want)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(log)
		if err != nil || string(text) != "words" {
			t.Errorf("%q, %v", text, err)
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
		if (got.Ended != nil) != want.Follow {
			t.Errorf("ended is %v, follow %t", got.Ended, want.Follow)
		}
		got.Ended, want.Ended = nil, nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestLogCannotBeOpened(t *testing.T) {
	c := started(t, &fakeHost{log: func(context.Context, host.LogRequest) (io.ReadCloser, error) {
		return nil, &fs.PathError{Op: "open", Path: "/a", Err: syscall.ENOENT}
	}})
	for _, follow := range []bool{false, true} {
		_, err := c.Log(t.Context(), host.LogRequest{Follow: follow})
		if !errors.Is(err, fs.ErrNotExist) || err.Error() != "open /a: no such file or directory" {
			t.Errorf("error %v", err)
		}
	}
}

// script is a log that a test writes; closed when the host's side is closed.
type script struct {
	*io.PipeReader
	closed chan struct{}
}

func (s script) Close() error {
	close(s.closed)
	return s.PipeReader.Close()
}

func TestFollowedLog(t *testing.T) {
	out, in := io.Pipe()
	log := script{out, make(chan struct{})}
	c := started(t, &fakeHost{log: func(_ context.Context, r host.LogRequest) (io.ReadCloser, error) {
		go func() {
			<-r.Ended
			_, _ = io.WriteString(in, "last words")
			in.CloseWithError(backend.Errorf(backend.ErrInvalid, "at its end\n: %w", syscall.EIO))
		}()
		return log, nil
	}})
	ended := make(chan struct{})
	r, err := c.Log(t.Context(), host.LogRequest{Follow: true, Ended: ended})
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	for _, piece := range []string{"one", "two"} {
		if _, err := io.WriteString(in, piece); err != nil {
			t.Fatal(err)
		}
		if n, err := io.ReadFull(r, buf[:3]); err != nil || string(buf[:n]) != piece {
			t.Errorf("%q, %v, want %s at once", buf[:n], err, piece)
		}
	}
	close(ended)
	text, err := io.ReadAll(r)
	if string(text) != "last words" || !errors.Is(err, syscall.EIO) || backend.Class(err) != "Invalid" ||
		err.Error() != "at its end\n: input/output error" {
		t.Errorf("%q, %v", text, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	<-log.closed
}

// endless is a log that ends with its context.
func endless(log script) func(context.Context, host.LogRequest) (io.ReadCloser, error) {
	return func(ctx context.Context, r host.LogRequest) (io.ReadCloser, error) {
		context.AfterFunc(ctx, func() { log.CloseWithError(ctx.Err()) })
		return log, nil
	}
}

func TestFollowedLogEnds(t *testing.T) {
	for name, end := range map[string]func(c *Client, r io.Closer, cancel context.CancelFunc){
		"when it is closed":      func(_ *Client, r io.Closer, _ context.CancelFunc) { r.Close() },
		"with its context":       func(_ *Client, _ io.Closer, cancel context.CancelFunc) { cancel() },
		"when the stream breaks": func(c *Client, _ io.Closer, _ context.CancelFunc) { c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			out, in := io.Pipe()
			log := script{out, make(chan struct{})}
			c := started(t, &fakeHost{log: endless(log)})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r, err := c.Log(ctx, host.LogRequest{Follow: true, Ended: make(chan struct{})})
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(in, "x")
			_, _ = io.ReadFull(r, make([]byte, 1))
			end(c, r, cancel)
			_, err = r.Read(make([]byte, 1))
			want := context.Canceled
			if name == "when the stream breaks" {
				want = backend.ErrUnavailable
			}
			if !errors.Is(err, want) {
				t.Errorf("error %v, want %v", err, want)
			}
			<-log.closed
			r.Close()
		})
	}
}

// zeros is a log without end.
type zeros struct{ closed chan struct{} }

func (z zeros) Read(p []byte) (int, error) { return len(p), nil }

func (z zeros) Close() error {
	close(z.closed)
	return nil
}

func TestLogThatNobodyReadsHoldsUpNothing(t *testing.T) {
	const logs = 20
	closed := make(chan struct{}, logs)
	c := started(t, &fakeHost{log: func(context.Context, host.LogRequest) (io.ReadCloser, error) {
		z := zeros{make(chan struct{})}
		go func() {
			<-z.closed
			closed <- struct{}{}
		}()
		return z, nil
	}})
	var open []io.Closer
	for range logs {
		r, err := c.Log(t.Context(), host.LogRequest{Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, r)
	}
	for range 5 {
		if err := c.Place(t.Context(), host.Volume{Files: []host.File{{Data: make([]byte, 1<<20)}}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range open {
		r.Close()
	}
	for range logs {
		<-closed
	}
}

func TestPanicInALogIsAnError(t *testing.T) {
	c := started(t, &fakeHost{log: func(_ context.Context, r host.LogRequest) (io.ReadCloser, error) {
		if r.Path == "now" {
			panic("at once")
		}
		return io.NopCloser(panicking{}), nil
	}})
	if _, err := c.Log(t.Context(), host.LogRequest{Path: "now"}); err == nil ||
		!strings.Contains(err.Error(), "Log panicked") {
		t.Errorf("opened: %v", err)
	}
	r, err := c.Log(t.Context(), host.LogRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.ReadAll(r); err == nil || !strings.Contains(err.Error(), "Log panicked") {
		t.Errorf("read: %v", err)
	}
}

type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("later") }

// TestSystemLogIsCarried: the request arrives whole; the text, and the error with which it
// ends or is refused, come back.
func TestSystemLogIsCarried(t *testing.T) {
	broken := errors.New("broken")
	want := filled.Of[host.SystemLogRequest](t)
	for name, tt := range map[string]struct {
		text       io.Reader
		open, read error
	}{
		"whole":   {text: strings.NewReader("words")},
		"broken":  {text: io.MultiReader(strings.NewReader("words"), iotest.ErrReader(broken)), read: broken},
		"refused": {open: backend.Errorf(backend.ErrInvalid, "read d: %w", syscall.EISDIR)},
	} {
		var got any
		c := started(t, &fakeHost{answer: func(_ context.Context, _ string, arg any) (any, error) {
			if got = arg; tt.open != nil {
				return nil, tt.open
			}
			return io.NopCloser(tt.text), nil
		}})
		log, err := c.SystemLog(t.Context(), want)
		if diff := cmp.Diff(any(want), got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if tt.open != nil {
			if !errors.Is(err, backend.ErrInvalid) || !errors.Is(err, syscall.EISDIR) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(log)
		if string(text) != "words" || (err == nil) != (tt.read == nil) || err != nil && err.Error() != tt.read.Error() {
			t.Errorf("%s: %q, %v", name, text, err)
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	}
}
