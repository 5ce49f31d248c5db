package ecs

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
)

// saturated launches more pods than may start in a while, and returns once some
// have, while they are wanted. wait returns the errors of all.
func saturated(wanted context.Context, t *testing.T, b backend.Backend, n int) (wait func() []error) {
	t.Helper()
	errs := make([]error, n)
	var waiting sync.WaitGroup
	for i := range n {
		waiting.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), callLimit)
			defer cancel()
			errs[i] = b.Pods.Launch(ctx, wanted, specOf(podOf(fmt.Sprint("p", i), "sleep", "100000"), 0))
		})
	}
	time.Sleep(5 * time.Second)
	synctest.Wait() // launches whose turn is at this very moment have arrived
	return func() []error {
		waiting.Wait()
		return errs
	}
}

func TestAStopIsNotBehindTheQueueOfStarts(t *testing.T) {
	virtual(t, stub.Config{Throttles: true, Delays: slow}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		all := saturated(t.Context(), t, b, 1000)
		infos := s.TaskInfos()
		if len(infos) < 50 || len(infos) > 150 {
			t.Fatalf("%d tasks have started after 5 s", len(infos))
		}
		facts, err := b.Pods.List(t.Context())
		must(t, err)
		for _, f := range facts[:20] {
			begun := time.Now()
			must(t, b.Pods.Stop(t.Context(), f.Ref, 0))
			if took := time.Since(begun); took > 100*time.Millisecond {
				t.Errorf("a stop took %s", took)
			}
		}
		begun := time.Now()
		if _, err := b.Pods.Inspect(t.Context(), uids("p1", "p2")); err != nil || time.Since(begun) > 100*time.Millisecond {
			t.Errorf("a read took %s: %v", time.Since(begun), err)
		}
		for _, err := range all() {
			must(t, err)
		}
		if n := s.Throttled()["StopTask"] + s.Throttled()["RunTask"]; n > 0 {
			t.Errorf("%d calls were throttled", n)
		}
	})
}

// A thousand stops at once leave the rest of their bucket to nobody else before.
func TestStartsWaitForStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bs := newBuckets()
		var stops sync.WaitGroup
		for range 500 {
			stops.Go(func() { must(t, awscall.Wait(t.Context(), bs.modify)) })
		}
		synctest.Wait()
		begun := time.Now()
		must(t, awscall.Wait(t.Context(), bs.runTask, bs.modify))
		stops.Wait()
		if took := time.Since(begun); took < 10*time.Second {
			t.Errorf("a start overtook 500 stops: %s", took)
		}
	})
}

func TestALaunchThatIsNotWantedLeavesTheQueue(t *testing.T) {
	virtual(t, stub.Config{Throttles: true}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		wanted, cancel := context.WithCancel(t.Context())
		all := saturated(wanted, t, b, 1000)
		cancel()
		begun := time.Now()
		errs := all()
		if took := time.Since(begun); took > 0 {
			t.Errorf("it took %s", took)
		}
		made, left := 0, ""
		for i, err := range errs {
			switch {
			case err == nil:
				made++
			case backend.IsUnmade(err):
				left = fmt.Sprint("p", i)
			default:
				t.Fatalf("it is not certain that nothing was made: %v", err)
			}
		}
		time.Sleep(3 * time.Minute) // more than the settle time
		if n := len(s.TaskInfos()); n != made || n > 150 {
			t.Errorf("%d tasks, and %d launches made one", n, made)
		}
		begun = time.Now()
		wantClass(t, b.Pods.Remove(t.Context(), specOf(podOf(left), 0).Ref()), "NotFound")
		must(t, b.Pods.Launch(t.Context(), t.Context(), specOf(podOf("next", "sleep", "1"), 0)))
		if took := time.Since(begun); took > time.Second {
			t.Errorf("the next launch waited for %s", took)
		}
	})
}

// What was sent is left to return, wanted or not: its outcome must be known.
func TestALaunchUnderWayIsNotGivenUp(t *testing.T) {
	virtual(t, stub.Config{}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		wanted, cancel := context.WithCancel(t.Context())
		s.Hook(func(c stub.Call) error {
			if c.Action == "RunTask" {
				cancel()
			}
			return nil
		}, nil)
		must(t, b.Pods.Launch(t.Context(), wanted, specOf(podOf("p", "sleep", "100"), 0)))
		if n := len(s.Tasks(true)); n != 1 {
			t.Errorf("%d tasks", n)
		}
	})
}
