package deadline_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend/deadline"
)

// TestSet: a deadline that is set again passes at its last time.
func TestSet(t *testing.T) {
	const never = -1
	for name, tt := range map[string]struct {
		set  []time.Duration // from the start; 0 is none
		want time.Duration
	}{
		"never set":         {nil, never},
		"once":              {[]time.Duration{time.Second}, time.Second},
		"earlier":           {[]time.Duration{time.Minute, time.Second}, time.Second},
		"later":             {[]time.Duration{time.Second, time.Minute}, time.Minute},
		"in the past":       {[]time.Duration{-time.Second}, 0},
		"taken back":        {[]time.Duration{time.Second, 0}, never},
		"anew after it was": {[]time.Duration{-time.Second, time.Second}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, d := time.Now(), deadline.New()
				for _, after := range tt.set {
					if after == 0 {
						d.Set(time.Time{})
					} else {
						d.Set(start.Add(after))
					}
				}
				got := time.Duration(never)
				select {
				case <-d.Passed():
					got = time.Since(start)
				case <-time.After(time.Hour):
				}
				if got != tt.want || d.HasPassed() != (got != never) {
					t.Errorf("it passed after %v, want %v; has passed: %v", got, tt.want, d.HasPassed())
				}
			})
		})
	}
}

// TestStop: a deadline that was stopped does not pass.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := deadline.New()
		d.Set(time.Now().Add(time.Second))
		d.Stop()
		time.Sleep(time.Minute)
		if d.HasPassed() {
			t.Error("it passed")
		}
	})
}
