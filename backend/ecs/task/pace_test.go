package task

import (
	"testing"
	"time"
)

func TestPeriods(t *testing.T) {
	for _, tc := range []struct {
		tasks        int
		rest, moving time.Duration
	}{
		{0, 5 * time.Second, time.Second},
		{1, 5 * time.Second, time.Second},
		{100, 5 * time.Second, time.Second},
		{101, 8 * time.Second, time.Second},
		{1000, 40 * time.Second, 2 * time.Second},
		{10000, time.Minute, 20 * time.Second},
	} {
		if got := restPeriod(tc.tasks, false); got != tc.rest {
			t.Errorf("%d tasks at rest: every %s, want %s", tc.tasks, got, tc.rest)
		}
		if got := movingPeriod(tc.tasks); got != tc.moving {
			t.Errorf("%d tasks on their way: every %s, want %s", tc.tasks, got, tc.moving)
		}
	}
	if got := restPeriod(1, true); got != time.Minute {
		t.Errorf("with hints every %s", got)
	}
	if a, b := missingPeriod(0), missingPeriod(time.Hour); a != 2*time.Second || b != 30*time.Second {
		t.Errorf("missing tasks: first after %s, at last every %s", a, b)
	}
}
