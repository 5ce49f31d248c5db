package main

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/burstlet/burstlet/test/fakeaws/ecs"
)

// output is what the command prints.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func TestServes(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd, out, done := command(), &output{}, make(chan error, 1)
	cmd.SetOut(out)
	cmd.SetArgs([]string{"--queue", "q", "--throttles", "--provision", "5s"})
	go func() { done <- cmd.ExecuteContext(ctx) }()
	deadline := time.After(3 * time.Minute)
	for !strings.Contains(out.String(), "QUEUE_URL=https://sqs.us-east-1.amazonaws.com/123456789012/q\n") {
		select {
		case err := <-done:
			t.Fatalf("it ended: %v", err)
		case <-deadline:
			t.Fatalf("printed %q", out.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
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
