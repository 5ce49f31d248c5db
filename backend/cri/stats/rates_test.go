package stats

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRates(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	var r rates
	for i, step := range []struct {
		after time.Duration
		total uint64
		want  *uint64
	}{
		{0, 1000, nil},
		{50 * time.Millisecond, 2000, nil},                      // too short to tell
		{time.Second, 5e8 + 1000, new(uint64(5e8))},             // since the first
		{time.Second + time.Millisecond, 9e9, new(uint64(5e8))}, // too short: the last
		{3 * time.Second, 25e8 + 1000, new(uint64(1e9))},        // of late
		{4 * time.Second, 10, nil},                              // went back
		{5 * time.Second, 1010, new(uint64(1000))},
	} {
		r.begin()
		got := r.rate("x", noon.Add(step.after), &step.total)
		r.end()
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("step %d: %s", i, diff)
		}
	}
	if got := r.rate("unknown", noon, nil); got != nil {
		t.Errorf("an unknown counter grows by %d", *got)
	}
	r.begin()
	r.end()
	if len(r.samples) != 0 {
		t.Error("a counter that is gone is remembered")
	}
}
