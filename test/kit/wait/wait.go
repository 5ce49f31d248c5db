package wait

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// The pace of polling: as often as firstPause in the beginning, for what takes no time,
// then ever less often, so that many who wait leave the processor to what they wait for.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 250 * time.Millisecond
)

// For polls until f returns nil, and fails the test with f's last error if that takes
// longer than limit. It may be used in cleanups. f runs in the caller's goroutine; it
// returns what is not yet as it should be, and leaves the failing to For: a Fatal in it
// would end the wait at the first look.
func For(t testing.TB, limit time.Duration, what string, f func() error) {
	t.Helper()
	// Not the test's context, which has ended in cleanups.
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := poll(ctx, func(context.Context) error { return f() }); err != nil {
		t.Fatalf("%s: not within %s: %v", what, limit, err)
	}
}

// Until polls until f returns nil. When ctx ends before, the error holds the context's
// and f's last one.
func Until(ctx context.Context, what string, f func(context.Context) error) error {
	if err := poll(ctx, f); err != nil {
		return fmt.Errorf("wait for %s: %w; last: %w", what, context.Cause(ctx), err)
	}
	return nil
}

// poll returns the last error of f when ctx has ended.
func poll(ctx context.Context, f func(context.Context) error) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for pause := firstPause; ; pause = min(pause*5/4, lastPause) {
		over := ctx.Err() != nil
		err := f(ctx)
		if err == nil || over {
			return err
		}
		timer.Reset(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
}
