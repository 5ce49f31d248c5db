package controlplane

import (
	"context"
	"errors"
	"os"
	"path/filepath"
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
	receive(t, p.Done())
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
	receive(t, p.Done())
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
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("ended with %v, want killed", err)
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
			if err := syscall.Kill(p.Pid(), syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		},
		"watched after the end": func(p *process) {
			if err := syscall.Kill(p.Pid(), syscall.SIGKILL); err != nil {
				t.Error(err)
			}
			<-p.Done()
			p.watch()
		},
	}
	for name, act := range tests {
		t.Run(name, func(t *testing.T) {
			failed := make(chan error, 1)
			act(startShell(t, "exec sleep 1000", failed))
			if err := receive(t, failed); !strings.Contains(err.Error(), "shell ended by itself: signal: killed") {
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
