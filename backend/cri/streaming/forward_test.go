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
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// refused is how containerd says so.
const refused = `failed to execute portforward in network namespace "/var/run/netns/x": failed to connect to localhost:%d ` +
	`inside namespace "x", IPv4: dial tcp4 127.0.0.1:%d: connect: connection refused IPv6 dial tcp6 [::1]:%d: connect: connection refused`

// halfClose ends what is sent.
func halfClose(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Error(err)
	}
}

func forwardTo(t *testing.T, port uint16, pod func(port int32, stream io.ReadWriteCloser) error) (*world, net.Conn) {
	t.Helper()
	w := newWorld(t, &fakeRuntime{forward: pod})
	conn, err := w.forward(t.Context(), port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return w, conn
}

func TestForwardBothWays(t *testing.T) {
	const size = 8 << 20
	_, conn := forwardTo(t, 8080, func(port int32, stream io.ReadWriteCloser) error {
		if port != 8080 {
			return fmt.Errorf("port %d", port)
		}
		_, err := io.Copy(stream, stream)
		return err
	})
	if got := conn.RemoteAddr().String(); got != "127.0.0.1:8080" {
		t.Errorf("connected to %s", got)
	}
	sent := sha256.New()
	writing := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.MultiWriter(conn, sent), io.LimitReader(rand.NewChaCha8([32]byte{3}), size))
		halfClose(t, conn)
		writing <- err
	}()
	came := sha256.New()
	n, err := io.Copy(came, conn)
	if werr := <-writing; err != nil || werr != nil || n != size || !bytes.Equal(sent.Sum(nil), came.Sum(nil)) {
		t.Errorf("%d bytes, %v, %v", n, err, werr)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := conn.Write([]byte("x")); err == nil {
		t.Error("written after the end of what is sent")
	}
}

// The runtime may be quicker than we are: then there is no connection.
func TestForwardRefused(t *testing.T) {
	w := newWorld(t, &fakeRuntime{forward: func(port int32, _ io.ReadWriteCloser) error {
		return fmt.Errorf(refused, port, port, port)
	}})
	seen := map[string]bool{}
	for range 50 {
		conn, err := w.forward(t.Context(), 7001)
		where := "when connecting"
		if err == nil {
			where = "when reading"
			_, err = conn.Read(make([]byte, 1))
			if _, err := conn.Write([]byte("x")); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("write: %v, want a refused connection", err)
			}
			conn.Close()
		}
		seen[where] = true
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("%s: %v, want a refused connection", where, err)
		}
		wantClass(t, err, errors.New("none"))
		wantText(t, err, "localhost:7001")
	}
	t.Log("seen", seen)
}

// What came before an error is read before it.
func TestForwardThatFails(t *testing.T) {
	_, conn := forwardTo(t, 1, func(_ int32, stream io.ReadWriteCloser) error {
		if _, err := io.WriteString(stream, "first"); err != nil {
			return err
		}
		return errors.New("reset by peer")
	})
	got, err := io.ReadAll(conn)
	if string(got) != "first" || errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%q, %v", got, err)
	}
	wantText(t, err, "reset by peer")
}

// A pod that has ended its side may still listen, as long as its runtime does.
func TestForwardToOneThatOnlyListens(t *testing.T) {
	heard := make(chan string, 1)
	_, conn := forwardTo(t, 1, func(_ int32, stream io.ReadWriteCloser) error {
		if err := stream.Close(); err != nil {
			return err
		}
		text, err := io.ReadAll(stream)
		heard <- string(text)
		return err
	})
	if got, err := io.ReadAll(conn); err != nil || len(got) > 0 {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := io.WriteString(conn, "still there"); err != nil {
		t.Error(err)
	}
	halfClose(t, conn)
	if got := <-heard; got != "still there" {
		t.Errorf("heard %q", got)
	}
}

func TestForwardToOneThatEnds(t *testing.T) {
	_, conn := forwardTo(t, 1, func(_ int32, stream io.ReadWriteCloser) error {
		_, err := io.WriteString(stream, "bye")
		return err
	})
	if got, err := io.ReadAll(conn); err != nil || string(got) != "bye" {
		t.Errorf("%q, %v", got, err)
	}
	deadline := time.Now().Add(3 * time.Minute)
	for {
		_, err := conn.Write([]byte("anybody?"))
		if errors.Is(err, syscall.EPIPE) {
			break
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%v, want a broken pipe", err)
		}
	}
}

func TestForwardOverAConnectionThatBreaks(t *testing.T) {
	ended := make(chan struct{})
	w, conn := forwardTo(t, 1, func(_ int32, stream io.ReadWriteCloser) error {
		defer close(ended)
		_, err := io.Copy(stream, stream)
		return err
	})
	if _, err := io.WriteString(conn, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	w.cut()
	_, err := conn.Read(make([]byte, 1))
	wantClass(t, err, backend.ErrUnavailable)
	await(t, "the pod's side ends", ended)
}

func TestForwardDeadlines(t *testing.T) {
	release := make(chan struct{})
	_, conn := forwardTo(t, 1, func(_ int32, stream io.ReadWriteCloser) error {
		<-release
		_, err := io.Copy(stream, stream)
		return err
	})
	soon := time.Now().Add(50 * time.Millisecond)
	if err := conn.SetDeadline(soon); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) ||
		!timeout.Timeout() {
		t.Errorf("read: %v", err)
	}
	// Until all that lies between is full.
	sent, err := io.Copy(conn, rand.NewChaCha8([32]byte{4}))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("write: %v", err)
	}
	if err := conn.SetDeadline(time.Now().Add(3 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	// Nothing of it is lost, and it goes on.
	close(release)
	writing := make(chan struct{})
	go func() {
		defer close(writing)
		if _, err := io.WriteString(conn, "and more"); err != nil {
			t.Error(err)
		}
		halfClose(t, conn)
	}()
	got, err := io.ReadAll(conn)
	<-writing
	if err != nil || !bytes.HasSuffix(got, []byte("and more")) || int64(len(got)) < sent {
		t.Errorf("%d bytes came of %d, %v", len(got), sent, err)
	}
}

// Closing ends what waits, at once, even where nothing moves.
func TestForwardClose(t *testing.T) {
	for name, use := range map[string]func(net.Conn) error{
		"while reading": func(conn net.Conn) error {
			_, err := conn.Read(make([]byte, 1))
			return err
		},
		"while writing": func(conn net.Conn) error {
			_, err := io.Copy(conn, rand.NewChaCha8([32]byte{5}))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			_, conn := forwardTo(t, 1, func(_ int32, stream io.ReadWriteCloser) error {
				<-release
				_, err := io.Copy(io.Discard, stream) // the server leaks what is not read
				return err
			})
			used := make(chan error, 1)
			go func() { used <- use(conn) }()
			time.Sleep(50 * time.Millisecond) // for buffers to fill
			begun := time.Now()
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
			if took := time.Since(begun); took > flushTimeout+time.Minute {
				t.Errorf("it took %v to close", took)
			}
			if err := <-used; !errors.Is(err, net.ErrClosed) {
				t.Errorf("%v", err)
			}
			if err := conn.Close(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("closed again: %v", err)
			}
			if err := conn.SetDeadline(time.Time{}); !errors.Is(err, net.ErrClosed) {
				t.Errorf("a deadline for what is closed: %v", err)
			}
			close(release)
		})
	}
}

// What was written is not lost by closing.
func TestForwardCloseAfterWriting(t *testing.T) {
	heard := make(chan int64, 1)
	_, conn := forwardTo(t, 1, func(_ int32, stream io.ReadWriteCloser) error {
		if _, err := io.WriteString(stream, "ready"); err != nil {
			return err
		}
		n, err := io.Copy(io.Discard, stream)
		heard <- n
		return err
	})
	// A server may miss what comes and goes before it has begun.
	if _, err := io.ReadFull(conn, make([]byte, len("ready"))); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	took := time.Since(begun)
	// Close does not wait for ever, for a busy machine neither.
	if n := <-heard; n != 1<<20 && took < flushTimeout {
		t.Errorf("%d bytes came, closed in %v", n, took)
	}
}

// The context is that of connecting.
func TestForwardContext(t *testing.T) {
	w := newWorld(t, &fakeRuntime{forward: func(_ int32, stream io.ReadWriteCloser) error {
		_, err := io.Copy(stream, stream)
		return err
	}})
	ctx, cancel := context.WithCancel(t.Context())
	conn, err := w.forward(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cancel()
	if _, err := io.WriteString(conn, "x"); err != nil {
		t.Error(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
	if _, err := w.forward(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	w.dialErr = errors.New("no route")
	_, err = w.forward(t.Context(), 1)
	wantClass(t, err, backend.ErrUnavailable)
}
