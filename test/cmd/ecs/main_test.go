package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/kit/logs"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// patience bounds each step, on a machine that builds other packages meanwhile.
const patience = 3 * time.Minute

// A file of burstlet doctor --try changes how the server behaves; rows that it cannot
// follow are named, and what is no such file is refused.
func TestObserved(t *testing.T) {
	file := filepath.Join(t.TempDir(), "seen.json")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"version": 1, "rows": [
		{"name": "refused.exitCode", "seen": "none", "verdict": "differs"},
		{"name": "time.pull", "seen": "12s", "verdict": "measured", "seconds": 12},
		{"name": "time.provision", "seen": "denied", "verdict": "unknown"},
		{"name": "stop.code", "seen": "UserInitiated", "verdict": "agrees"},
		{"name": "tmpfs", "seen": "refused", "verdict": "differs"}]}`)
	var cfg ecs.Config
	left, err := observe(&cfg, file)
	if err != nil || !slices.Equal(left, []string{"tmpfs"}) {
		t.Errorf("%v, %v", left, err)
	}
	if cfg.Observed.RefusedExit != "none" || cfg.Delays.Pull != 12*time.Second || cfg.Delays.Provision != 0 {
		t.Errorf("%+v", cfg)
	}
	for text, want := range map[string]string{`{"version": 2}`: "version 2, want 1", `[`: "read what was observed"} {
		write(text)
		if _, err := observe(&cfg, file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestServes(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd, out, done := command(), &logs.Buffer{}, make(chan error, 1)
	cmd.SetOut(out)
	cmd.SetArgs([]string{"--queue", "q", "--throttles", "--provision", "5s"})
	go func() { done <- cmd.ExecuteContext(ctx) }()
	printed(t, out, done, "QUEUE_URL=https://sqs.us-east-1.amazonaws.com/123456789012/q\n")
	line, _, _ := strings.Cut(out.String(), "\n")
	report, err := ecs.Remote{URL: strings.TrimPrefix(line, "ECS_URL=")}.Report(ctx)
	if err != nil || report.Now.IsZero() || len(report.Tasks) != 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// printed waits until the command has printed a text.
func printed(t *testing.T, out *logs.Buffer, done <-chan error, text string) {
	t.Helper()
	wait.For(t, patience, "what the command prints", func() error {
		select {
		case err := <-done:
			t.Fatalf("it ended: %v; printed %q", err, out.String())
		default:
		}
		if !strings.Contains(out.String(), text) {
			return fmt.Errorf("printed %q, want %q", out.String(), text)
		}
		return nil
	})
}
