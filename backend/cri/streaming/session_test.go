package streaming

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	server "k8s.io/cri-streaming/pkg/streaming"

	"github.com/burstlet/burstlet/backend"
)

func TestExecOutputAndCodes(t *testing.T) {
	for name, tt := range map[string]struct {
		run      func(process) error
		out, err string
		code     int32
	}{
		"succeeds":        {func(process) error { return nil }, "", "", 0},
		"both outputs":    {say("out\n", "err\n", nil), "out\n", "err\n", 0},
		"an exit code":    {say("x", "", exitError(3)), "x", "", 3},
		"a signal's":      {say("", "", exitError(137)), "", "", 137},
		"more than 8 bit": {say("", "", exitError(1000)), "", "", 1000},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, &fakeRuntime{exec: tt.run})
			var out, errs bytes.Buffer
			code, err := w.exec(t.Context(), backend.ExecSpec{Stdout: &out, Stderr: &errs})
			if err != nil || code != tt.code || out.String() != tt.out || errs.String() != tt.err {
				t.Errorf("%d, %v, %q, %q, want %d, %q, %q", code, err, &out, &errs, tt.code, tt.out, tt.err)
			}
			if code, err := w.exec(t.Context(), backend.ExecSpec{}); err != nil || code != tt.code {
				t.Errorf("with nobody who listens: %d, %v, want %d", code, err, tt.code)
			}
		})
	}
}

// say is a process with something to say.
func say(out, errs string, end error) func(process) error {
	return func(p process) error {
		if _, err := io.WriteString(p.out, out); err != nil {
			return err
		}
		if p.err != nil {
			if _, err := io.WriteString(p.err, errs); err != nil {
				return err
			}
		}
		return end
	}
}

func TestExecInTheRuntimesWords(t *testing.T) {
	w := newWorld(t, &fakeRuntime{exec: say("", "", errors.New("failed to exec in container: no such file"))})
	_, err := w.exec(t.Context(), backend.ExecSpec{})
	var words *Error
	if !errors.As(err, &words) || words.Message != "failed to exec in container: no such file" {
		t.Errorf("%v, want the words without what the server puts before them", err)
	}
	wantClass(t, err, errors.New("none"))
}

// kubectl cp: bytes are exact and the end of the input is passed on.
func TestExecCarriesMuch(t *testing.T) {
	const size = 64 << 20
	w := newWorld(t, &fakeRuntime{exec: func(p process) error {
		_, err := io.Copy(p.out, p.in)
		return err
	}})
	in := io.LimitReader(rand.NewChaCha8([32]byte{1}), size)
	sent, came := sha256.New(), sha256.New()
	begun := time.Now()
	code, err := w.exec(t.Context(), backend.ExecSpec{Stdin: io.TeeReader(in, sent), Stdout: came})
	if err != nil || code != 0 || !bytes.Equal(sent.Sum(nil), came.Sum(nil)) {
		t.Errorf("%d, %v, sent %x, came %x", code, err, sent.Sum(nil), came.Sum(nil))
	}
	t.Logf("%d MiB there and back in %v", size>>20, time.Since(begun))
}

// A slow reader slows the process, and loses nothing.
func TestExecWithASlowReader(t *testing.T) {
	w := newWorld(t, &fakeRuntime{exec: func(p process) error {
		_, err := io.Copy(p.out, io.LimitReader(rand.NewChaCha8([32]byte{2}), 4<<20))
		return errors.Join(err, p.out.Close(), p.err.Close())
	}})
	want := sha256.New()
	if _, err := io.Copy(want, io.LimitReader(rand.NewChaCha8([32]byte{2}), 4<<20)); err != nil {
		t.Fatal(err)
	}
	came := sha256.New()
	slow := writerFunc(func(b []byte) (int, error) {
		time.Sleep(time.Millisecond)
		return came.Write(b)
	})
	code, err := w.exec(t.Context(), backend.ExecSpec{Stdout: slow, Stderr: io.Discard})
	if err != nil || code != 0 || !bytes.Equal(came.Sum(nil), want.Sum(nil)) {
		t.Errorf("%d, %v", code, err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestExecDoesNotWaitForItsInput(t *testing.T) {
	w := newWorld(t, &fakeRuntime{exec: say("done", "", nil)})
	var out bytes.Buffer
	code, err := w.exec(t.Context(), backend.ExecSpec{Stdin: never(t), Stdout: &out})
	if err != nil || code != 0 || out.String() != "done" {
		t.Errorf("%d, %v, %q", code, err, &out)
	}
}

func TestExecWithATerminal(t *testing.T) {
	w := newWorld(t, &fakeRuntime{exec: func(p process) error {
		for size := range p.resize {
			if _, err := fmt.Fprintf(p.out, "%dx%d ", size.Width, size.Height); err != nil {
				return err
			}
			if size.Width == 132 {
				break
			}
		}
		if !p.tty || p.err != nil {
			return errors.New("no terminal")
		}
		return nil
	}})
	sizes := make(chan backend.TerminalSize, 2)
	sizes <- backend.TerminalSize{Width: 80, Height: 24}
	sizes <- backend.TerminalSize{Width: 132, Height: 43}
	close(sizes)
	var out, errs bytes.Buffer
	code, err := w.exec(
		t.Context(), backend.ExecSpec{TTY: true, Stdin: never(t), Stdout: &out, Stderr: &errs, Resize: sizes},
	)
	if err != nil || code != 0 || out.String() != "80x24 132x43 " || errs.Len() > 0 {
		t.Errorf("%d, %v, %q, %q", code, err, &out, &errs)
	}
}

func TestExecPassesOnOutputUntilItsContextEnds(t *testing.T) {
	ended := make(chan struct{})
	w := newWorld(t, &fakeRuntime{exec: func(p process) error {
		defer close(ended)
		if _, err := io.WriteString(p.out, "begun"); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, p.in) // until the streams are closed
		return err
	}})
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	seen := writerFunc(func(b []byte) (int, error) {
		defer cancel()
		return out.Write(b)
	})
	_, err := w.exec(ctx, backend.ExecSpec{Stdin: never(t), Stdout: seen})
	if !errors.Is(err, context.Canceled) || out.String() != "begun" {
		t.Errorf("%v, %q", err, &out)
	}
	wantClass(t, err, errors.New("none"))
	await(t, "the process sees its input end", ended)
}

// The context also ends a command whose input and output both are stuck.
func TestExecEndsWhileAllIsStuck(t *testing.T) {
	release := make(chan struct{})
	w := newWorld(t, &fakeRuntime{exec: func(process) error {
		<-release
		return nil
	}})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begun := time.Now()
	_, err := w.exec(ctx, backend.ExecSpec{Stdin: rand.NewChaCha8([32]byte{}), Stdout: io.Discard})
	if took := time.Since(begun); !errors.Is(err, context.DeadlineExceeded) || took > 3*time.Minute {
		t.Errorf("%v after %v", err, took)
	}
	close(release)
}

// saysAndReads is a process that ends with its input, after some output.
func saysAndReads(ended chan<- struct{}) func(process) error {
	return func(p process) error {
		defer close(ended)
		if _, err := io.WriteString(p.out, "x"); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, p.in)
		return err
	}
}

func TestExecEndsWhenOutputIsNotTaken(t *testing.T) {
	ended := make(chan struct{})
	w := newWorld(t, &fakeRuntime{exec: saysAndReads(ended)})
	broken := errors.New("broken pipe")
	_, err := w.exec(
		t.Context(), backend.ExecSpec{Stdin: never(t), Stdout: writerFunc(func([]byte) (int, error) { return 0, broken })},
	)
	if !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	await(t, "the process sees its input end", ended)
}

// A connection that breaks is no success.
func TestExecOverAConnectionThatBreaks(t *testing.T) {
	ended := make(chan struct{})
	w := newWorld(t, &fakeRuntime{exec: saysAndReads(ended)})
	_, err := w.exec(t.Context(), backend.ExecSpec{Stdin: never(t), Stdout: writerFunc(func(b []byte) (int, error) {
		w.cut()
		return len(b), nil
	})})
	wantClass(t, err, backend.ErrUnavailable)
	wantText(t, err, "broke off")
	await(t, "the process sees its input end", ended)
}

func TestServerThatCannotBeReached(t *testing.T) {
	w := newWorld(t, &fakeRuntime{exec: say("", "", nil)})
	spec := backend.ExecSpec{}
	used := w.execURL(spec)
	if _, err := Exec(t.Context(), w, used, spec); err != nil {
		t.Fatal(err)
	}
	_, err := Exec(t.Context(), w, used, spec)
	wantText(t, err, "404")
	wantClass(t, err, errors.New("none"))

	w.dialErr = errors.New("no route")
	_, err = w.exec(t.Context(), spec)
	wantClass(t, err, backend.ErrUnavailable)
	wantText(t, err, "no route")
	w.dialErr = nil

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = w.exec(ctx, spec)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	for _, address := range []string{"", "/exec/secret", "unix:///x/secret", "http://\x00secret"} {
		if _, err := Exec(t.Context(), w, address, spec); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("address %q: %v", address, err)
		}
	}
}

// mute is a server that accepts, and answers as it is told.
func mute(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serve(conn)
			conn.Close()
		}
	})
	t.Cleanup(func() {
		listener.Close()
		served.Wait()
	})
	return "http://" + listener.Addr().String() + "/exec/x"
}

const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n"

func TestServerThatBreaksOff(t *testing.T) {
	read := func(conn net.Conn, n int) {
		err := conn.SetReadDeadline(time.Now().Add(3 * time.Minute))
		if err == nil {
			_, err = conn.Read(make([]byte, n))
		}
		if err != nil {
			t.Error(err)
		}
	}
	write := func(conn net.Conn, text string) {
		if _, err := io.WriteString(conn, text); err != nil {
			t.Error(err)
		}
	}
	for name, serve := range map[string]func(net.Conn){
		"before it answers":     func(conn net.Conn) { read(conn, 4096) },
		"in its answer":         func(conn net.Conn) { read(conn, 4096); write(conn, "HTTP/1.1 101 Swi") },
		"before the streams":    func(conn net.Conn) { read(conn, 4096); write(conn, switching) },
		"after the first bytes": func(conn net.Conn) { read(conn, 4096); write(conn, switching); read(conn, 10) },
	} {
		t.Run(name, func(t *testing.T) {
			begun := time.Now()
			_, err := Exec(t.Context(), &world{t: t}, mute(t, serve), backend.ExecSpec{Stdin: never(t), TTY: true})
			wantClass(t, err, backend.ErrUnavailable)
			if took := time.Since(begun); took >= openTimeout {
				t.Errorf("it took %v", took)
			}
		})
	}
	t.Run("or only waits", func(t *testing.T) {
		for _, answer := range []string{"", switching} {
			ctx, cancel := context.WithCancel(t.Context())
			gone := make(chan struct{})
			url := mute(t, func(conn net.Conn) {
				read(conn, 4096)
				write(conn, answer)
				time.AfterFunc(200*time.Millisecond, cancel)
				<-gone
			})
			_, err := Exec(ctx, &world{t: t}, url, backend.ExecSpec{Stdin: never(t)})
			if !errors.Is(err, context.Canceled) || backend.Class(err) != "Transient" {
				t.Errorf("%v", err)
			}
			cancel()
			close(gone)
		}
	})
}

func TestServerOfAnotherProtocol(t *testing.T) {
	url := mute(t, func(conn net.Conn) {
		if _, err := conn.Read(make([]byte, 4096)); err != nil {
			t.Error(err)
		}
		if _, err := io.WriteString(conn, strings.Replace(switching, "v4", "v1", 1)); err != nil {
			t.Error(err)
		}
	})
	_, err := Exec(t.Context(), &world{t: t}, url, backend.ExecSpec{})
	wantText(t, err, "v1.channel.k8s.io")
}

// containerd can be told to serve its streams over TLS, with a certificate that
// nobody signed.
func TestServerWithTLS(t *testing.T) {
	w := newWorld(t, &fakeRuntime{exec: say("out", "", exitError(2))})
	ts := httptest.NewTLSServer(w.server)
	t.Cleanup(ts.Close)
	url := w.execURL(backend.ExecSpec{})
	var out bytes.Buffer
	code, err := Exec(t.Context(), w, ts.URL+url[strings.Index(url, "/exec/"):], backend.ExecSpec{Stdout: &out})
	if err != nil || code != 2 || out.String() != "out" {
		t.Errorf("%d, %v, %q", code, err, &out)
	}
}

func TestAttach(t *testing.T) {
	w := newWorld(t, &fakeRuntime{attach: func(p process) error {
		text, err := io.ReadAll(p.in)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(p.out, "read %s", text)
		_, err2 := fmt.Fprint(p.err, "error")
		return errors.Join(err, err2)
	}})
	var out, errs bytes.Buffer
	err := w.attach(t.Context(), backend.AttachSpec{Stdin: strings.NewReader("text"), Stdout: &out, Stderr: &errs})
	if err != nil || out.String() != "read text" || errs.String() != "error" {
		t.Errorf("%v, %q, %q", err, &out, &errs)
	}
}

func TestAttachErrors(t *testing.T) {
	w := newWorld(t, &fakeRuntime{attach: say("", "", errors.New("container is in CONTAINER_EXITED state"))})
	err := w.attach(t.Context(), backend.AttachSpec{})
	var words *Error
	if !errors.As(err, &words) || words.Message != "container is in CONTAINER_EXITED state" {
		t.Errorf("%v", err)
	}
	release := make(chan struct{})
	w = newWorld(t, &fakeRuntime{attach: func(process) error {
		<-release
		return nil
	}})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := w.attach(ctx, backend.AttachSpec{Stdin: never(t)}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	close(release)
}

// The runtime ends a connection on which nothing moves; that is no success.
func TestIdleConnection(t *testing.T) {
	release := make(chan struct{})
	runtime := &fakeRuntime{exec: func(process) error {
		<-release
		return nil
	}}
	w := newWorld(t, runtime)
	cfg := server.DefaultConfig
	cfg.StreamIdleTimeout = 100 * time.Millisecond
	cfg.Addr = "unused"
	var err error
	if w.server, err = server.NewServer(cfg, runtime); err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(w.server)
	t.Cleanup(ts.Close)
	url := w.execURL(backend.ExecSpec{})
	_, err = Exec(t.Context(), w, ts.URL+url[strings.Index(url, "/exec/"):], backend.ExecSpec{})
	wantClass(t, err, backend.ErrUnavailable)
	close(release)
}

func TestReadStatus(t *testing.T) {
	for name, tt := range map[string]struct {
		text  string
		code  int32
		class string
		want  string
	}{
		"nothing":    {"", 0, "Unavailable", "broke off"},
		"half of it": {`{"status":"Fai`, 0, "Unavailable", "broke off"},
		"success":    {`{"metadata":{},"status":"Success"}`, 0, "", ""},
		"an exit code": {
			`{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"42"}]}}`, 42,
			"", "",
		},
		"no exit code": {`{"status":"Failure","reason":"NonZeroExitCode"}`, 0, "Transient", "no exit code"},
		"not an exit code": {
			`{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"x"}]}}`, 0,
			"Transient", "no number",
		},
		"words": {
			`{"status":"Failure","reason":"InternalError","message":"Internal error occurred: error attaching to container: why"}`,
			0, "Transient", "why",
		},
		"no words":      {`{"status":"Failure"}`, 0, "Transient", "no reason"},
		"neither this":  {`{"status":"Perhaps"}`, 0, "Transient", "Perhaps"},
		"nor an object": {`[]`, 0, "Unavailable", "broke off"},
	} {
		t.Run(name, func(t *testing.T) {
			code, err := readStatus([]byte(tt.text))
			if code != tt.code || backend.Class(err) != tt.class || (err != nil && !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%d, %s: %v, want %d, %s: %s", code, backend.Class(err), err, tt.code, tt.class, tt.want)
			}
		})
	}
}
