package logs

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestBufferKeepsAll(t *testing.T) {
	var b Buffer
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for range 100 {
				_, _ = b.Write([]byte("a line\n")) // it has no errors
			}
		})
	}
	writers.Wait()
	if got := strings.Count(b.String(), "a line\n"); got != 800 {
		t.Errorf("%d lines, want 800", got)
	}
	if got := b.Tail(3); got != "ne\n" {
		t.Errorf("the last 3 bytes are %q", got)
	}
}

func TestBufferKeepsTheEnd(t *testing.T) {
	b := Buffer{Keep: 10}
	for i := range 100 {
		_, _ = b.Write(fmt.Appendf(nil, "%03d ", i)) // it has no errors
		if got := b.String(); len(got) > 2*b.Keep || !strings.HasSuffix(got, fmt.Sprintf("%03d ", i)) || i >= 3 &&
			len(got) < b.Keep {
			t.Fatalf("after %d it keeps %q", i, got)
		}
	}
}
