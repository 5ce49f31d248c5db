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
	"github.com/burstlet/burstlet/backend/sim/duplex"
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
		"small":   {exec: cat, in: strings.NewReader("hello"), out: "hello", errOut: "5 bytes", code: 3},
		"nothing": {exec: cat, in: strings.NewReader(""), errOut: "0 bytes", code: 3},
		"big":     {exec: cat, in: bytes.NewReader(big), out: string(big), errOut: "160000 bytes", code: 3},
		"by the byte": {
			exec: cat, in: iotest.DataErrReader(iotest.OneByteReader(strings.NewReader("hey"))), out: "hey", errOut: "3 bytes",
			code: 3,
		},
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
			if !spec.Live {
				return 0, errors.New("the output need not be live")
			}
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
		_, err := b.Exec.Exec(t.Context(), backend.ContainerRef{}, backend.ExecSpec{Live: true, Stdin: in, Stdout: out})
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

// TestTerminalOverTheWire: the terminal's sizes arrive, the latest if nobody
// looked, and their end does.
func TestTerminalOverTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []backend.TerminalSize
		look := func(tty bool, sizes <-chan backend.TerminalSize) error {
			if !tty {
				return errors.New("no terminal")
			}
			time.Sleep(time.Minute)
			for size := range sizes {
				got = append(got, size)
			}
			return nil
		}
		f := &far{
			exec: func(_ context.Context, s backend.ExecSpec) (int32, error) { return 0, look(s.TTY, s.Resize) },
			join: func(_ context.Context, s backend.AttachSpec) error { return look(s.TTY, s.Resize) },
		}
		b := serve(t, f.backend).running("node")
		sizes := func() <-chan backend.TerminalSize {
			c := make(chan backend.TerminalSize)
			go func() {
				for _, after := range []time.Duration{0, time.Second, 2 * time.Minute} {
					time.Sleep(after)
					c <- backend.TerminalSize{Width: uint16(after / time.Second), Height: 65535}
				}
				close(c)
			}()
			return c
		}
		want := []backend.TerminalSize{{Width: 1, Height: 65535}, {Width: 120, Height: 65535}}
		_, err := b.Exec.Exec(t.Context(), backend.ContainerRef{}, backend.ExecSpec{TTY: true, Resize: sizes()})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("exec: %v, %v", got, err)
		}
		got = nil
		err = b.Attach.Attach(t.Context(), backend.ContainerRef{}, backend.AttachSpec{TTY: true, Resize: sizes()})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("attach: %v, %v", got, err)
		}
	})
}

// TestAttach: all three streams and the error arrive, and the call ends at the
// server when its caller goes.
func TestAttach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := make(chan error, 1)
		f := &far{join: func(ctx context.Context, s backend.AttachSpec) error {
			if s.Stdin == nil {
				<-ctx.Done()
				left <- ctx.Err()
				return ctx.Err()
			}
			n, err := io.Copy(s.Stdout, s.Stdin)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(s.Stderr, "%d", n)
			return errors.Join(err, backend.Errorf(backend.ErrNotFound, "it ended"))
		}}
		b := serve(t, f.backend).running("node")
		var out, errs strings.Builder
		err := b.Attach.Attach(t.Context(), backend.ContainerRef{Name: "c"}, backend.AttachSpec{
			Stdin: strings.NewReader("input"), Stdout: &out, Stderr: &errs,
		})
		wantClass(t, err, "NotFound")
		if out.String() != "input" || errs.String() != "5" {
			t.Errorf("%q, %q", out.String(), errs.String())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = b.Attach.Attach(ctx, backend.ContainerRef{}, backend.AttachSpec{Stdout: &out})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("given up: %v", err)
		}
		if err := <-left; err == nil {
			t.Error("the call at the server did not end")
		}
	})
}

// tunnels runs a test with a forwarding server in memory and on a socket.
func tunnels(t *testing.T, test func(t *testing.T, b backend.Backend, remotes <-chan *duplex.Conn)) {
	for name, over := range map[string]func(t *testing.T, f *far) backend.Backend{
		"pipes": func(t *testing.T, f *far) backend.Backend { return serve(t, f.backend).connect("node") },
		"socket": func(t *testing.T, f *far) backend.Backend {
			path := socket(t)
			serveSocket(t, path, f.backend)
			return connectSocket(t, path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			remotes := make(chan *duplex.Conn, 1)
			f := &far{port: func(_ context.Context, port uint16) (net.Conn, error) {
				if port == 0 {
					return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
				}
				near, far := duplex.Pipe()
				remotes <- far
				return near, nil
			}}
			b := over(t, f)
			runUntilReady(t, b)
			test(t, b, remotes)
		})
	}
}

// TestForward: each direction ends on its own, with all that was sent before.
func TestForward(t *testing.T) {
	tunnels(t, func(t *testing.T, b backend.Backend, remotes <-chan *duplex.Conn) {
		_, err := b.Forward.Forward(t.Context(), backend.Ref{UID: "u"}, 0)
		if err == nil || backend.Class(err) != "Transient" || !strings.Contains(err.Error(), "refused") {
			t.Errorf("refused: %v", err)
		}
		sent := bytes.Repeat([]byte("0123456789abcdef"), 20000)
		for name, endsFirst := range map[string]bool{"the caller ends first": true, "the remote ends first": false} {
			ctx, cancel := context.WithCancel(t.Context())
			conn, err := b.Forward.Forward(ctx, backend.Ref{UID: "u"}, 80)
			if err != nil {
				t.Fatal(err)
			}
			cancel() // it is about the connecting, not the connection
			near, remote := conn.(*duplex.Conn), <-remotes
			one, other := near, remote
			if !endsFirst {
				one, other = remote, near
			}
			for i, way := range [][2]*duplex.Conn{{one, other}, {other, one}} {
				wrote := make(chan error, 1)
				go func() {
					_, err := way[0].Write(sent)
					wrote <- errors.Join(err, way[0].CloseWrite())
				}()
				if got, err := io.ReadAll(way[1]); err != nil || !bytes.Equal(got, sent) {
					t.Errorf("%s: direction %d: %d bytes, %v", name, i, len(got), err)
				}
				if err := <-wrote; err != nil {
					t.Errorf("%s: direction %d: %v", name, i, err)
				}
			}
			_, _ = near.Close(), remote.Close()
		}
	})
}

// TestForwardIsClosed: whoever closes, the other side sees it, after what was
// written before.
func TestForwardIsClosed(t *testing.T) {
	tunnels(t, func(t *testing.T, b backend.Backend, remotes <-chan *duplex.Conn) {
		open := func() (near, remote *duplex.Conn) {
			conn, err := b.Forward.Forward(t.Context(), backend.Ref{}, 80)
			if err != nil {
				t.Fatal(err)
			}
			return conn.(*duplex.Conn), <-remotes
		}
		near, remote := open()
		_, err := io.WriteString(near, "last words")
		_ = near.Close()
		if got, readErr := io.ReadAll(remote); err != nil || readErr != nil || string(got) != "last words" {
			t.Errorf("the caller closed: %q, %v, %v", got, err, readErr)
		}
		<-remote.Closed()

		near, remote = open() // which nobody reads or writes
		_ = near.Close()
		<-remote.Closed()

		near, remote = open()
		_, err = io.WriteString(remote, "last words")
		_ = remote.Close()
		if got, readErr := io.ReadAll(near); err != nil || readErr != nil || string(got) != "last words" {
			t.Errorf("the remote closed: %q, %v, %v", got, err, readErr)
		}
		if _, err := near.Write(make([]byte, 3*maxFrame)); err == nil {
			t.Error("the remote closed, and takes all that is written")
		}
		_ = near.Close()

		near, remote = open()
		go func() { _, _ = near.Write(make([]byte, 10*maxFrame)) }() // which the remote does not read
		time.Sleep(10 * time.Millisecond)
		_ = near.Close()
		if _, err := io.ReadAll(remote); err != nil {
			t.Errorf("the caller closed while it wrote: %v", err)
		}
		<-remote.Closed()
	})
}

// TestForwardEndsWithServer: nothing is left of a connection.
func TestForwardEndsWithServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, remote := duplex.Pipe()
		f := &far{port: func(context.Context, uint16) (net.Conn, error) { return near, nil }}
		w := serve(t, f.backend)
		b := w.running("node")
		conn, err := b.Forward.Forward(t.Context(), backend.Ref{}, 80)
		if err != nil {
			t.Fatal(err)
		}
		w.stop()
		<-remote.Closed()
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Error("read from a server that ended")
		}
		_ = conn.Close()
	})
}
