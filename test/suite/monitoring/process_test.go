package monitoring

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/burstlet/burstlet/test/kit/logs"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

var plane cptest.Shared

func TestMain(m *testing.M) { os.Exit(plane.Main(m)) }

// buildBurstlet builds the program.
func buildBurstlet(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "burstlet")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-race", "-o", program, "github.com/burstlet/burstlet/cmd/burstlet").CombinedOutput()
	if err != nil {
		t.Fatalf("build burstlet: %v\n%s", err, out)
	}
	return program
}

// lockedBuffer keeps what a process prints.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) tail(n int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := b.buf.String()
	return text[max(0, len(text)-n):]
}

// start runs a program until the test ends, and wants it to end well then.
func start(t *testing.T, env []string, program string, args ...string) {
	t.Helper()
	name := filepath.Base(program) + " " + args[0]
	log := &lockedBuffer{}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("end %s: %v", name, err)
		}
		timer := time.AfterFunc(time.Minute, func() {
			t.Errorf("%s did not end within a minute", name)
			_ = cmd.Process.Kill() // it may have ended just now
		})
		defer timer.Stop()
		if err := <-done; err != nil {
			t.Errorf("%s ended with %v", name, err)
		}
		logs.Show(t, name, log.tail(8000))
	})
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// patience is how long a step may take, many times what it does on an idle machine.
const patience = 3 * time.Minute

// eventually polls until f has no error.
func eventually(t *testing.T, limit time.Duration, what string, f func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %s: %v", what, limit, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// writeFile writes a file of the test's own and returns its path.
func writeFile(t *testing.T, name, format string, args ...any) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, fmt.Appendf(nil, format, args...), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
