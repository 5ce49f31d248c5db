package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func startShell(t *testing.T, script string, failed chan error) *process {
	t.Helper()
	dir := t.TempDir()
	p, err := startProcess("shell", "/bin/sh", []string{"-c", script}, dir, filepath.Join(dir, "shell.log"), failed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.stop(context.Background(), 0); err != nil {
			t.Error(err)
		}
	})
	return p
}

func receive[T any](t *testing.T, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(3 * time.Minute):
		t.Fatal("nothing received in 3 min")
		panic("unreachable")
	}
}

func TestAwaitQuotesLogOfEndedProcess(t *testing.T) {
	p := startShell(t, "echo no such flag >&2; exit 3", make(chan error, 1))
	err := p.await(t.Context(), "shell", func(context.Context) error { return errors.New("not yet") })
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no such flag") {
		t.Errorf("got %v, want exit status and log", err)
	}
}

func TestAwaitEndsWithContext(t *testing.T) {
	p := startShell(t, "echo still at it; exec sleep 1000", make(chan error, 1))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := p.await(ctx, "shell", func(context.Context) error { return errors.New("not yet") })
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "not yet") {
		t.Errorf("got %v, want deadline exceeded and the last answer", err)
	}
}

func TestLogTailIsOfThisRun(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "x.log")
	if err := os.WriteFile(log, []byte("an earlier run\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := startProcess("x", "/bin/sh", []string{"-c", "echo this run"}, dir, log, make(chan error, 1))
	if err != nil {
		t.Fatal(err)
	}
	receive(t, p.done)
	if got := string(p.logTail()); got != "this run" {
		t.Errorf("got %q", got)
	}
	whole, err := os.ReadFile(log)
	if err != nil || !strings.HasPrefix(string(whole), "an earlier run\n") {
		t.Errorf("log of the earlier run is gone: %q, %v", whole, err)
	}
}

func TestLogTailIsBounded(t *testing.T) {
	p := startShell(t, "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done", make(chan error, 1))
	receive(t, p.done)
	tail := string(p.logTail())
	if len(tail) > tailBytes || !strings.HasPrefix(tail, "line ") || !strings.HasSuffix(tail, "line 1999") {
		t.Errorf("got %d bytes, from %.20q", len(tail), tail)
	}
}

func TestStopKillsWhatIgnoresSIGTERM(t *testing.T) {
	failed := make(chan error, 1)
	p := startShell(t, "trap '' TERM; echo ready; while :; do sleep 0.05; done", failed)
	p.watch()
	if err := p.await(t.Context(), "shell", func(context.Context) error {
		if len(p.logTail()) == 0 {
			return errors.New("trap is not set")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := p.stop(t.Context(), 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if p.err == nil || !strings.Contains(p.err.Error(), "killed") {
		t.Errorf("ended with %v, want killed", p.err)
	}
	select {
	case err := <-failed:
		t.Errorf("a stopped process was reported: %v", err)
	default:
	}
}

func TestWatchReportsAnEnd(t *testing.T) {
	tests := map[string]func(p *process){
		"watched before the end": func(p *process) {
			p.watch()
			if err := p.signal(syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		},
		"watched after the end": func(p *process) {
			if err := p.signal(syscall.SIGKILL); err != nil {
				t.Error(err)
			}
			<-p.done
			p.watch()
		},
	}
	for name, act := range tests {
		t.Run(name, func(t *testing.T) {
			failed := make(chan error, 1)
			act(startShell(t, "exec sleep 1000", failed))
			if err := receive(t, failed); !strings.Contains(err.Error(), "shell ended: signal: killed") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestStartProcessSaysWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	_, err := startProcess("x", filepath.Join(dir, "missing"), nil, dir, filepath.Join(dir, "x.log"), nil)
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want not exist", err)
	}
}

// ownerEnv makes TestChildDiesWithKilledOwner the owner that is killed.
const ownerEnv = "BURSTLET_TEST_OWNER"

func TestChildDiesWithKilledOwner(t *testing.T) {
	if os.Getenv(ownerEnv) != "" {
		p := startShell(t, "exec sleep 1000", make(chan error, 1))
		if _, err := fmt.Fprintf(os.Stdout, "pid=%d\n", p.cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
		<-p.done
		return
	}
	owner := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=10m")
	// What a killed process leaves goes with this test.
	owner.Env = append(os.Environ(), ownerEnv+"=1", "TMPDIR="+t.TempDir())
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	_, scanErr := fmt.Fscanf(out, "pid=%d\n", &pid)
	killErr := owner.Process.Kill()
	_ = owner.Wait() // it was killed
	if err := errors.Join(scanErr, killErr); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, pid)
}

// awaitGone waits until a process is gone, or waits only to be reaped.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for running(t, pid) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d still runs", pid)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func running(t *testing.T, pid int) bool {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	// pid (name) state ...
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}
