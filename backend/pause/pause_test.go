package pause_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend/pause"
)

// TestFor: a pause ends with its time or its context, whichever is first.
func TestFor(t *testing.T) {
	for name, tt := range map[string]struct {
		pause, timeout, took time.Duration
		err                  error
	}{
		"its time":        {pause: time.Second, timeout: time.Minute, took: time.Second},
		"its context":     {pause: time.Minute, timeout: time.Second, took: time.Second, err: context.DeadlineExceeded},
		"none":            {timeout: time.Minute},
		"none, too late":  {pause: -1, timeout: -1, err: context.DeadlineExceeded},
		"ended, but asks": {pause: time.Minute, timeout: -1, err: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.timeout)
				defer cancel()
				start := time.Now()
				if err := pause.For(ctx, tt.pause); !errors.Is(err, tt.err) || time.Since(start) != tt.took {
					t.Errorf("%v after %v, want %v after %v", err, time.Since(start), tt.err, tt.took)
				}
			})
		})
	}
}
