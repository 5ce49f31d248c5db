package ecs

import (
	"testing"
	"time"
)

// The offset of ECS's clock changes only where an answer proves it wrong: the times of
// tasks must not move because an answer was slow.
func TestClockChangesOnlyWhereProvedWrong(t *testing.T) {
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	const ms = time.Millisecond
	for _, tt := range []struct {
		name             string
		was              time.Duration
		begin, end, date time.Duration // from noon on, the last by ECS's clock
		want             time.Duration
	}{
		{"equal", 0, 100 * ms, 150 * ms, 0, 0},
		{"late in the second", 0, 900 * ms, 990 * ms, 0, 0},
		{"a slow answer", 0, 100 * ms, 9100 * ms, 0, 0},
		{"a slow call", 0, 100 * ms, 9100 * ms, 9000 * ms, 0},
		{"within tolerance", 0, 0, 100 * ms, 2000 * ms, 0},
		{"ahead", 0, 0, 100 * ms, 60 * time.Second, 60*time.Second + 450*ms},
		{"behind", 0, 0, 100 * ms, -60 * time.Second, -60*time.Second + 450*ms},
		{"ahead still, slowly told", time.Minute, 0, 9 * time.Second, 61 * time.Second, time.Minute},
		{"set right meanwhile", time.Minute, 0, 100 * ms, 0, 450 * ms},
	} {
		c := &clock{offset: tt.was}
		c.saw(noon.Add(tt.begin), noon.Add(tt.end), noon.Add(tt.date))
		if c.offset != tt.want {
			t.Errorf("%s: offset %v, want %v", tt.name, c.offset, tt.want)
		}
	}
}
