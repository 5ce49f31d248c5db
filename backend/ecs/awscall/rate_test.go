package awscall

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(10, 5)
		var mu sync.Mutex
		var took []time.Duration
		var all sync.WaitGroup
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		tooLong := 0
		for range 30 {
			all.Go(func() {
				err := q.Wait(ctx)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					took = append(took, time.Since(begun))
				case errors.Is(err, errTooLong) && time.Since(begun) == 0:
					tooLong++
				case time.Since(begun) < 900*time.Millisecond:
					t.Errorf("%v after %s", err, time.Since(begun))
				}
			})
			synctest.Wait() // in the order of calls
		}
		all.Wait()
		if len(took) < 14 || len(took) > 16 || tooLong < 13 {
			t.Errorf("%d tokens in a second, %d were told at once that it would take too long", len(took), tooLong)
		}
		for i, d := range took {
			if want := time.Duration(max(0, i-4)) * 100 * time.Millisecond; d < want || d > want+10*time.Millisecond {
				t.Errorf("token %d after %s, want %s", i, d, want)
			}
		}
	})
}

func TestWhoLeavesTheQueueTakesNoToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(10, 1)
		if err := q.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		leave := make([]context.CancelFunc, 100)
		var all sync.WaitGroup
		for i := range leave {
			var ctx context.Context
			ctx, leave[i] = context.WithCancel(t.Context())
			all.Go(func() {
				if err := q.Wait(ctx); !errors.Is(err, context.Canceled) {
					t.Errorf("waiter %d: %v", i, err)
				}
			})
			synctest.Wait()
		}
		for _, l := range leave {
			l()
			synctest.Wait()
		}
		all.Wait()
		begun := time.Now()
		if err := q.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > 200*time.Millisecond {
			t.Errorf("the next waited for %s", took)
		}
	})
}
