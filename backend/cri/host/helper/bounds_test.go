package helper

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// A host that answers with more than an operation has to say is refused: it would take
// the memory of all nodes of a process.
func TestRepliesAreBoundedByOperation(t *testing.T) {
	large := strings.Repeat("x", 2<<20)
	h := &fakeHost{answer: func(_ context.Context, op string, _ any) (any, error) {
		switch op {
		case opFacts:
			return host.Facts{Hostname: large}, nil
		case opReadFile:
			return bytes.Repeat([]byte("f"), 3<<20), nil
		case opUsage:
			return host.Usage{Network: []host.Interface{{Name: large}}}, nil
		default:
			return nil, errors.New(large)
		}
	}}
	c := started(t, h)
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), "more than") || len(err.Error()) > 1000 {
			t.Errorf("%s: %.200v", what, err)
		}
	}
	_, err := c.Facts(t.Context())
	refused("facts", err)
	_, err = c.ReadFile(t.Context(), "/f", 4096)
	refused("more of a file than was asked for", err)
	if got, err := c.ReadFile(t.Context(), "/f", 3<<20); err != nil || len(got) != 3<<20 {
		t.Errorf("a file of the size that was asked for: %d bytes, %v", len(got), err)
	}
	if got, err := c.Usage(t.Context(), host.UsageRequest{}); err != nil || got.Network[0].Name != large {
		t.Errorf("what tells of many pods: %v", err)
	}
}

// What is said of a message's size takes no memory.
func TestASizeThatIsSaidTakesNoMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readBody(strings.NewReader("short"), maxMessage, maxMessage)
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; err == nil || taken > 1<<20 {
		t.Errorf("%d bytes for a message that did not come, error %v", taken, err)
	}
	for _, size := range []int64{-1, 5} {
		if got, err := readBody(strings.NewReader("short"), size, 5); err != nil || string(got) != "short" {
			t.Errorf("size %d: %q, %v", size, got, err)
		}
	}
	for _, most := range []int64{0, 4} {
		if _, err := readBody(strings.NewReader("short"), -1, most); !errors.Is(err, errMalformed) {
			t.Errorf("at most %d: %v", most, err)
		}
	}
}
