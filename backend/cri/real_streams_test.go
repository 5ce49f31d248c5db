package cri

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/test/kit/lane"
)

// realMuch is what travels each way, in bytes: kubectl cp of something big. It is
// more than any buffer on the way holds.
func realMuch() int64 { return lane.Pick[int64](16, 16, 64) << 20 }

// noise is the same for the same seed.
func noise(seed byte) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{seed}), realMuch())
}

func realExecCarriesMuch(t *testing.T, w *realWorld) {
	ref := w.start(t, testPod("real-much"), "exec sleep 4321")
	c := backend.ContainerRef{Pod: ref, Name: "main"}
	sent := sha256.New()
	var sum bytes.Buffer
	begun := time.Now()
	code, err := w.remote.sessions.Exec(t.Context(), c, backend.ExecSpec{
		Command: []string{"sh", "-c", "cat > /tmp-file && sha256sum < /tmp-file; exit 3"},
		Stdin:   io.TeeReader(noise(1), sent), Stdout: &sum,
	})
	if want := fmt.Sprintf("%x", sent.Sum(nil)); err != nil || code != 3 || !strings.HasPrefix(sum.String(), want) {
		t.Errorf("to the container: %d, %v, %q, want %s", code, err, &sum, want)
	}
	t.Logf("%d MiB to a container in %v", realMuch()>>20, time.Since(begun))
	begun = time.Now()
	came := sha256.New()
	code, err = w.remote.sessions.Exec(
		t.Context(), c, backend.ExecSpec{Command: []string{"cat", "/tmp-file"}, Live: true, Stdout: came, Stderr: io.Discard},
	)
	if err != nil || code != 0 || !bytes.Equal(came.Sum(nil), sent.Sum(nil)) {
		t.Errorf("from the container: %d, %v", code, err)
	}
	t.Logf("%d MiB from a container in %v", realMuch()>>20, time.Since(begun))
	must(t, pods{w.remote}.Remove(t.Context(), ref))
}

// realExecStreamEnds: nothing but its input ties a command to who watches it: containerd closes that, and
// ends none whose watcher has left, for a kubelet neither.
func realExecStreamEnds(t *testing.T, w *realWorld) {
	ref := w.start(t, testPod("real-watched"), "exec sleep 4321")
	c := backend.ContainerRef{Pod: ref, Name: "main"}
	processes := func() string {
		var out bytes.Buffer
		_, err := w.remote.sessions.Exec(t.Context(), c, backend.ExecSpec{Command: []string{"ps"}, Stdout: &out})
		must(t, err)
		return out.String()
	}
	in, keys := io.Pipe()
	defer keys.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun := time.Now()
	_, err := w.remote.sessions.Exec(ctx, c, backend.ExecSpec{
		Command: []string{"sh", "-c", "echo begun; cat - /none"}, Stdin: in, Stdout: cancelling{cancel},
	})
	if took := time.Since(begun); !errors.Is(err, context.Canceled) || took > 3*time.Minute {
		t.Errorf("%v after %v", err, took)
	}
	eventually(t, "the command is gone", func() bool { return !strings.Contains(processes(), "/none") })
	must(t, pods{w.remote}.Remove(t.Context(), ref))
}

// cancelling gives up at the first output.
type cancelling struct{ cancel context.CancelFunc }

func (c cancelling) Write(b []byte) (int, error) {
	c.cancel()
	return len(b), nil
}

func realForward(t *testing.T, w *realWorld) {
	ref := w.start(
		t, testPod("real-ports"),
		"nc -ll -p 7000 -e cat & mkdir /www && echo page > /www/index.html && exec httpd -f -p 127.0.0.1:8080 -h /www",
	)
	f := w.remote.sessions
	eventually(t, "a page of what listens on loopback alone", func() bool {
		conn, err := f.Forward(t.Context(), ref, 8080)
		must(t, err)
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
			return false
		}
		page, err := io.ReadAll(conn)
		return err == nil && strings.HasSuffix(string(page), "\r\n\r\npage\n")
	})

	conn, err := f.Forward(t.Context(), ref, 7000)
	must(t, err)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(10*time.Minute)))
	sent := sha256.New()
	var sending sync.WaitGroup
	sending.Go(func() {
		if _, err := io.Copy(io.MultiWriter(conn, sent), noise(2)); err != nil {
			t.Error(err)
		}
	})
	came := sha256.New()
	begun := time.Now()
	n, err := io.CopyN(came, conn, realMuch())
	sending.Wait() // the echo may be back before it was counted
	if err != nil || !bytes.Equal(came.Sum(nil), sent.Sum(nil)) {
		t.Errorf("%d bytes came back, %v", n, err)
	}
	t.Logf("%d MiB there and back in %v", realMuch()>>20, time.Since(begun))

	refused, err := f.Forward(t.Context(), ref, 7001)
	if err == nil {
		defer refused.Close()
		begun = time.Now()
		_, err = refused.Read(make([]byte, 1))
	}
	if took := time.Since(begun); !errors.Is(err, syscall.ECONNREFUSED) || took > 3*time.Minute {
		t.Errorf("where nobody listens: %v after %v", err, took)
	}
	must(t, pods{w.remote}.Remove(t.Context(), ref))
}
