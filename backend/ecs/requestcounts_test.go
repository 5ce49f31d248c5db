package ecs

import (
	"context"
	"testing"
	"time"

	"github.com/burstlet/burstlet/backend"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
)

// sent is how often a request had an outcome.
func sent(b backend.Backend, call, outcome string) uint64 {
	for _, f := range b.Calls() {
		if f.Service == "ECS" && f.Call == call && f.Outcome == outcome {
			return f.Count
		}
	}
	return 0
}

func TestEveryRequestIsCountedRetriesToo(t *testing.T) {
	virtual(t, stub.Config{}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		s.Inject(stub.Fault{Action: "RunTask", Code: "ThrottlingException", Times: 2})
		must(t, b.Pods.Launch(t.Context(), t.Context(), specOf(podOf("a", "sleep", "600"), 0)))
		s.Inject(stub.Fault{Action: "RunTask", Code: "AccessDeniedException"})
		wantClass(t, b.Pods.Launch(t.Context(), t.Context(), specOf(podOf("b", "sleep", "600"), 0)), "Denied")
		for outcome, want := range map[string]uint64{"Throttled": 2, "ok": 1, "Denied": 1, "Unavailable": 0} {
			if got := sent(b, "RunTask", outcome); got != want {
				t.Errorf("RunTask %s: %d, want %d", outcome, got, want)
			}
		}
		if sent(b, "RegisterTaskDefinition", "ok") == 0 {
			t.Errorf("no registration counted: %v", b.Calls())
		}
	})
}

func TestWhatWaitsForTheRateOfRunTaskIsShown(t *testing.T) {
	virtual(t, stub.Config{}, func(t *testing.T, _ *stub.Server, b backend.Backend) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		const all = 60
		ended := make(chan struct{}, all)
		for i := range all {
			go func() {
				// What becomes of them is not the matter here.
				_ = b.Pods.Launch(ctx, ctx, specOf(podOf(string(rune('a'+i%26))+string(rune('a'+i/26)), "sleep", "600"), 0))
				ended <- struct{}{}
			}()
		}
		most := 0
		for range 50 {
			time.Sleep(20 * time.Millisecond)
			most = max(most, b.Queues()[0].Waiting)
		}
		if most == 0 || most > all {
			t.Errorf("at most %d waited", most)
		}
		for range all {
			<-ended
		}
		if q := b.Queues(); len(q) != 1 || q[0] != (backend.QueueFacts{Call: "RunTask"}) {
			t.Errorf("in the end %v", q)
		}
	})
}
