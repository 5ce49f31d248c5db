package wait

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// The pace of polling: as often as firstPause in the beginning, for what takes no time.
// After that a pause is a part of the time that was waited, so that a look comes late
// by little of what the wait takes, and many who wait for long leave the processor to
// what they wait for.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 500 * time.Millisecond
	part       = 16
)

// For polls until f returns nil, and fails the test with f's last error if that takes
// longer than limit. It may be used in cleanups. f runs in the caller's goroutine; it
// returns what is not yet as it should be. A Fatal in it ends the wait: that is for what
// no time will mend, as a process that has ended, not for a call that may fail once.
func For(t testing.TB, limit time.Duration, what string, f func() error) {
	t.Helper()
	// Not the test's context, which has ended in cleanups.
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	err := poll(ctx, func(context.Context) error { return f() })
	if err != nil {
		err = f() // the machine may have stood still since the last look
	}
	if err != nil {
		t.Fatalf("%s: not within %s: %v", what, limit, err)
	}
}

// Holds is For with a condition that has nothing to tell while it does not hold.
func Holds(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	For(t, limit, what, func() error {
		if !holds() {
			return errNot
		}
		return nil
	})
}

var errNot = errors.New("it is not so")

// Until polls until f returns nil. When ctx ends before, the error holds the context's
// cause and f's last error, also the one before if ctx ended while f looked; an f that
// finds that no time will mend it cancels ctx with the cause.
func Until(ctx context.Context, what string, f func(context.Context) error) error {
	if err := poll(ctx, f); err != nil {
		return fmt.Errorf("wait for %s: %w; last: %w", what, context.Cause(ctx), err)
	}
	return nil
}

// poll returns the last error of f when ctx has ended, and the one before with it if
// ctx ended while f looked.
func poll(ctx context.Context, f func(context.Context) error) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	begin := time.Now()
	var seen error
	for {
		err := f(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			seen = err
		}
		timer.Reset(min(max(firstPause, time.Since(begin)/part), lastPause))
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		switch {
		case ctx.Err() == nil:
		case seen == nil || errors.Is(err, seen):
			return err
		default:
			return fmt.Errorf("%w; as the time ended: %w", seen, err)
		}
	}
}
