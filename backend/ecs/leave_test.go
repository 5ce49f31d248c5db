package ecs

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/gate"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
)

// gated is a backend on a server, whose changes pass a gate. Like virtual, it runs f in
// virtual time.
func gated(t *testing.T, cfg stub.Config, f func(*testing.T, *stub.Server, *gate.Gate, backend.Backend)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, g := stub.New(cfg), gate.New()
		node := configOf(s)
		node.May = g.Permit
		g.Hold(time.Now().Add(time.Hour))
		f(t, s, g, g.Wrap(open(t, node)))
	})
}

// TestNoLaunchLeavesAfterTheTerm: launches that passed the gate and wait for their rate are
// not sent once the term is over, and it is certain that they made nothing.
func TestNoLaunchLeavesAfterTheTerm(t *testing.T) {
	gated(t, stub.Config{Throttles: true}, func(t *testing.T, s *stub.Server, g *gate.Gate, b backend.Backend) {
		all := saturated(t.Context(), t, b, 300)
		g.Close()
		before := len(s.TaskInfos())
		made := 0
		for _, err := range all() {
			switch {
			case err == nil:
				made++
			case !backend.IsUnmade(err) || backend.Class(err) != "Throttled":
				t.Fatalf("%s, made nothing: %v (%v)", backend.Class(err), backend.IsUnmade(err), err)
			}
		}
		if n := len(s.TaskInfos()); n != before || n != made || n == 0 {
			t.Errorf("%d tasks at the end of the term, %d later; %d launches made one", before, n, made)
		}
	})
}

// TestNoRetryLeavesAfterTheTerm: a request whose answer was lost is not sent again, and what
// became of it is not known.
func TestNoRetryLeavesAfterTheTerm(t *testing.T) {
	gated(t, stub.Config{}, func(t *testing.T, s *stub.Server, g *gate.Gate, b backend.Backend) {
		sent := 0
		s.Hook(nil, func(c stub.Call) error {
			if c.Action != "RunTask" {
				return nil
			}
			sent++
			g.Close()
			return errors.New("the answer is lost")
		})
		err := b.Pods.Launch(t.Context(), t.Context(), specOf(podOf("p", "sleep", "100"), 0))
		if sent != 1 || backend.IsUnmade(err) || backend.Class(err) != "Unavailable" {
			t.Errorf("sent %d times, made nothing: %v, %v", sent, backend.IsUnmade(err), err)
		}
		if _, err := b.Pods.List(t.Context()); err != nil {
			t.Errorf("reads do not pass: %v", err)
		}
	})
}

// TestNothingChangesWithoutAPermit: a backend that was given none changes nothing.
func TestNothingChangesWithoutAPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stub.New(stub.Config{})
		node := configOf(s)
		node.May = nil
		err := open(t, node).Pods.Launch(t.Context(), t.Context(), specOf(podOf("p", "true"), 0))
		if n := len(s.TaskInfos()); n > 0 || !backend.IsUnmade(err) || backend.Class(err) != "Throttled" {
			t.Errorf("%d tasks, %v", n, err)
		}
	})
}
