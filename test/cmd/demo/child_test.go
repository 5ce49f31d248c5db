package main

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

// startShell runs a script as a child and waits until it has said "ready".
func startShell(t *testing.T, script string) *child {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	c, err := startChild("script", "/bin/sh", []string{"-c", script}, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		if err := c.stop(ended); err != nil {
			t.Error(err)
		}
	})
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		content, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(content), "ready\n") {
			return c
		}
	}
	t.Fatal("the script never got ready")
	return nil
}

func TestChildStops(t *testing.T) {
	const forever = "; echo ready; while :; do sleep 0.1; done"
	tests := map[string]struct {
		script string
		force  bool
		want   string
	}{
		"well":               {script: `trap "exit 0" TERM` + forever},
		"badly":              {script: `trap "exit 3" TERM` + forever, want: "script did not end well: exit status 3"},
		"only when forced":   {script: `trap "" TERM` + forever, force: true, want: "script did not end well: signal: killed"},
		"before it is asked": {script: `echo ready`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := startShell(t, tc.script)
			began := time.Now()
			ctx, force := context.WithCancel(t.Context())
			defer force()
			if tc.force {
				force()
			}
			if err := c.stop(ctx); err != nil {
				t.Error(err)
			}
			expectError(t, c.exit(), tc.want)
			if took := time.Since(began); took > childGrace/2 {
				t.Errorf("it took %s", took)
			}
			if err := syscall.Kill(c.cmd.Process.Pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("it is still there: %v", err)
			}
		})
	}
}

func TestChildEndsByItself(t *testing.T) {
	for script, want := range map[string]string{
		"echo ready; exit 3": "script ended: exit status 3",
		"echo ready":         "script ended by itself",
	} {
		c := startShell(t, script)
		expectError(t, c.wait(t.Context()), want)
	}
}

func TestChildWaitEndsWithContext(t *testing.T) {
	c := startShell(t, "echo ready; while :; do sleep 0.1; done")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.wait(ctx); err != nil {
		t.Error(err)
	}
}

func TestStartChildFails(t *testing.T) {
	_, err := startChild("nothing", "/nonexistent", nil, filepath.Join(t.TempDir(), "log"))
	expectError(t, err, "start nothing: ")
	_, err = startChild("nothing", "/bin/true", nil, filepath.Join(t.TempDir(), "missing", "log"))
	expectError(t, err, "start nothing: ")
}
