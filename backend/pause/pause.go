// Package pause waits for a time that a context may cut short. It imports nothing of
// the project, so that every part of it may use the package.
package pause

import (
	"context"
	"time"
)

// For waits for d, or until ctx ends; then it returns the error of ctx. It does not
// wait for a d that is not positive.
func For(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
