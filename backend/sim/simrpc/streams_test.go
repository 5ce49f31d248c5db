package simrpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// TestExec: input, both outputs, the exit code and the error arrive, however
// big they are.
func TestExec(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789abcdef"), 10000) // several frames
	cat := func(_ context.Context, spec backend.ExecSpec) (int32, error) {
		n, err := io.Copy(spec.Stdout, spec.Stdin)
		if err != nil {
			return 1, err
		}
		_, err = fmt.Fprintf(spec.Stderr, "%d bytes", n)
		return 3, err
	}
	for name, tt := range map[string]struct {
		exec        func(context.Context, backend.ExecSpec) (int32, error)
		in          io.Reader
		out, errOut string
		code        int32
		err         string
	}{
		"small":       {exec: cat, in: strings.NewReader("hello"), out: "hello", errOut: "5 bytes", code: 3},
		"nothing":     {exec: cat, in: strings.NewReader(""), errOut: "0 bytes", code: 3},
		"big":         {exec: cat, in: bytes.NewReader(big), out: string(big), errOut: "160000 bytes", code: 3},
		"by the byte": {exec: cat, in: iotest.DataErrReader(iotest.OneByteReader(strings.NewReader("hey"))), out: "hey", errOut: "3 bytes", code: 3},
		"broken input": {
			exec: cat, in: io.MultiReader(strings.NewReader("a"), iotest.ErrReader(errors.New("cut"))), out: "a", err: "cut",
		},
		"a long error": {
			exec: func(context.Context, backend.ExecSpec) (int32, error) {
				return 0, backend.Errorf(backend.ErrInvalid, "%s", strings.Repeat("\x01", maxFrame))
			},
			err: strings.Repeat("\x01", maxFrame/8),
		},
		"no streams": {exec: func(_ context.Context, spec backend.ExecSpec) (int32, error) {
			if spec.Stdin != nil {
				return 0, errors.New("there is an input")
			}
			return 137, nil
		}, code: 137},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := serve(t, (&far{exec: tt.exec}).backend).running("node")
				var out, errOut bytes.Buffer
				code, err := b.Exec.Exec(t.Context(), backend.ContainerRef{}, backend.ExecSpec{
					Command: []string{"x"}, Stdin: tt.in, Stdout: &out, Stderr: &errOut,
				})
				text := ""
				if err != nil {
					text = err.Error()
				}
				if code != tt.code || text != tt.err || out.String() != tt.out || errOut.String() != tt.errOut {
					t.Errorf("code %d, error %.50q, %d bytes %.20q and %q", code, text, out.Len(), out.String(), errOut.String())
				}
			})
		})
	}
}

// TestExecIsAlive: output is seen as it is written, input taken only as it is
// read, and no stream is needed.
func TestExecIsAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hour := func(ctx context.Context) {
			select {
			case <-time.After(time.Hour):
			case <-ctx.Done():
			}
		}
		f := &far{exec: func(ctx context.Context, spec backend.ExecSpec) (int32, error) {
			if _, err := io.WriteString(spec.Stdout, "early"); err != nil {
				return 0, err
			}
			hour(ctx)
			_, err := io.ReadFull(spec.Stdin, make([]byte, 2))
			return 0, err
		}}
		b := serve(t, f.backend).running("node")
		var seen time.Duration
		begun := time.Now()
		in := &timedReader{Reader: strings.NewReader("in"), begun: begun}
		out := writerFunc(func(p []byte) { seen = time.Since(begun) + 1 })
		_, err := b.Exec.Exec(t.Context(), backend.ContainerRef{}, backend.ExecSpec{Stdin: in, Stdout: out})
		wantClass(t, err, "")
		if first := time.Duration(in.first.Load()); seen != 1 || first != time.Hour || time.Since(begun) != time.Hour {
			t.Errorf("output after %v, input taken after %v, took %v", seen, first, time.Since(begun))
		}
	})
}

// timedReader notes when it is read first.
type timedReader struct {
	io.Reader
	begun time.Time
	first atomic.Int64
}

func (r *timedReader) Read(p []byte) (int, error) {
	r.first.CompareAndSwap(0, int64(time.Since(r.begun)))
	return r.Reader.Read(p)
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

// TestExecOutputRefused: a caller that takes no more output ends the command.
func TestExecOutputRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		f := &far{exec: func(ctx context.Context, spec backend.ExecSpec) (int32, error) {
			_, err := io.WriteString(spec.Stdout, "x")
			<-ctx.Done()
			ended <- ctx.Err()
			return 0, err
		}}
		b := serve(t, f.backend).running("node")
		r, w := io.Pipe()
		_ = r.CloseWithError(errors.New("enough"))
		_, err := b.Exec.Exec(t.Context(), backend.ContainerRef{}, backend.ExecSpec{Stdout: w})
		if err == nil || !strings.Contains(err.Error(), "enough") {
			t.Errorf("error %v", err)
		}
		if err := <-ended; err == nil {
			t.Error("the command's context did not end")
		}
	})
}

// TestDial: bytes go both ways, either end may end it, and deadlines work.
func TestDial(t *testing.T) {
	for name, over := range map[string]func(t *testing.T, f *far) backend.Backend{
		"pipes": func(t *testing.T, f *far) backend.Backend { return serve(t, f.backend).connect("node") },
		"socket": func(t *testing.T, f *far) backend.Backend {
			path := socket(t)
			serveSocket(t, path, f.backend)
			return connectSocket(t, path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			remotes := make(chan net.Conn, 1)
			f := &far{dial: func(context.Context, string) (net.Conn, error) {
				near, far := net.Pipe()
				remotes <- far
				return near, nil
			}}
			b := over(t, f)
			runUntilReady(t, b)
			ctx, cancel := context.WithCancel(t.Context())
			conn, err := b.Dial.Dial(ctx, backend.Ref{UID: "u"}, "localhost:80")
			if err != nil {
				t.Fatal(err)
			}
			cancel() // it is about the dialling, not the connection
			remote := <-remotes
			sent := bytes.Repeat([]byte("ping"), 50000)
			go func() { _, _ = conn.Write(sent) }()
			got := make([]byte, len(sent))
			if _, err := io.ReadFull(remote, got); err != nil || !bytes.Equal(got, sent) {
				t.Fatalf("to the remote: %v", err)
			}
			go func() { _, _ = remote.Write(sent); _ = remote.Close() }()
			if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, sent) {
				t.Fatalf("from the remote: %d bytes, %v", len(got), err)
			}
			_ = conn.Close()

			conn, err = b.Dial.Dial(t.Context(), backend.Ref{}, "localhost:81")
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
			var timeout net.Error
			if _, err := conn.Read(make([]byte, 1)); !errors.As(err, &timeout) || !timeout.Timeout() {
				t.Errorf("deadline: %v", err)
			}
			_ = conn.Close()
			if _, err := io.ReadAll(<-remotes); err != nil {
				t.Errorf("the remote's end: %v", err)
			}
		})
	}
}

// TestLogs: a followed log is seen as it is written; only its true end is io.EOF.
func TestLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writers := make(chan *io.PipeWriter, 1)
		f := &far{logs: func(context.Context) (io.ReadCloser, error) {
			r, w := io.Pipe()
			writers <- w
			return r, nil
		}}
		b := serve(t, f.backend).running("node")
		open := func() (io.ReadCloser, *io.PipeWriter) {
			stream, err := b.Logs.Open(t.Context(), backend.ContainerRef{}, backend.LogOptions{Follow: true})
			if err != nil {
				t.Fatal(err)
			}
			return stream, <-writers
		}
		line := make([]byte, 100)

		stream, w := open()
		for _, text := range []string{"one\n", "two\n"} {
			_, _ = io.WriteString(w, text)
			if n, err := stream.Read(line); err != nil || string(line[:n]) != text {
				t.Errorf("read %q, %v", line[:n], err)
			}
		}
		_ = w.Close()
		if _, err := stream.Read(line); !errors.Is(err, io.EOF) {
			t.Errorf("at the end: %v", err)
		}
		_ = stream.Close()

		stream, w = open()
		_ = w.CloseWithError(backend.Errorf(backend.ErrThrottled, "too\nmany ü"))
		_, err := stream.Read(line)
		wantClass(t, err, "Throttled")
		if err == nil || err.Error() != "too\nmany ü" {
			t.Errorf("error %v", err)
		}
		_ = stream.Close()

		stream, w = open()
		time.AfterFunc(time.Second, func() { _ = stream.Close() })
		if _, err := stream.Read(line); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("read while it is closed: %v", err)
		}
		_, _ = io.WriteString(w, "nobody reads this")
		_ = w.Close()
	})
}

// TestHints: they arrive in order and none is held back, and the stream's end
// is the remote's.
func TestHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var want []types.UID
		for i := range 1000 {
			want = append(want, types.UID(fmt.Sprint(i)))
		}
		f := &far{hint: func(ctx context.Context, hints chan<- types.UID) error {
			for _, uid := range want {
				hints <- uid
			}
			<-time.After(time.Hour)
			return backend.Errorf(backend.ErrDenied, "no more")
		}}
		b := serve(t, f.backend).running("node")
		hints, ended := make(chan types.UID, len(want)), make(chan error, 1)
		go func() { ended <- b.Events.Run(t.Context(), hints) }()
		synctest.Wait() // before the hour has passed
		close(hints)
		if got := slices.Collect(func(yield func(types.UID) bool) {
			for uid := range hints {
				if !yield(uid) {
					return
				}
			}
		}); !slices.Equal(got, want) {
			t.Errorf("%d hints of %d", len(got), len(want))
		}
		wantClass(t, <-ended, "Denied")
	})
}
