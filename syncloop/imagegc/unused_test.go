package imagegc

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// TestDeleteUnused: everything that nobody needs goes, however empty the disk, but what was
// just pulled; a store that fails is told of.
func TestDeleteUnused(t *testing.T) {
	for name, policy := range map[string]Policy{
		"usual": usual, "off": {HighThresholdPercent: 100, MinAge: usual.MinAge},
	} {
		t.Run(name, func(t *testing.T) {
			collecting(t, policy, func(t *testing.T, l *life) {
				deleteUnused := func(ctx context.Context) error {
					l.mu.Unlock()
					defer l.mu.Lock()
					return l.DeleteUnused(ctx)
				}
				l.add("a", 100, false)
				l.add("b", 100, true)
				l.add("wanted", 100, false)
				l.add("refused", 100, false)
				l.wanted, l.refuses["refused"] = []string{"example.test/wanted:1"}, errors.New("busy")
				short, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := deleteUnused(short); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("before it is known what is wanted: %v", err)
				}
				l.Ready()
				l.sleep(3 * time.Minute)
				l.add("young", 100, false)
				if err := deleteUnused(t.Context()); err == nil || !strings.Contains(err.Error(), "remove image refused: busy") {
					t.Errorf("got %v", err)
				}
				l.wantGone(t, "a")
			})
		})
	}
}
