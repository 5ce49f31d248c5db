package statusmgr

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestQueue(t *testing.T) {
	t0 := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	take := func(t *testing.T, q *queue, at time.Time, want types.UID, wantWait time.Duration) {
		t.Helper()
		uid, ok, wait := q.take(at)
		if uid != want || ok != (want != "") || wait != wantWait {
			t.Fatalf("took %q (%v), wait %s; want %q, %s", uid, ok, wait, want, wantWait)
		}
	}
	t.Run("first come first served, once each", func(t *testing.T) {
		q := newQueue()
		for _, uid := range []types.UID{"a", "b", "a", "c"} {
			q.add(uid)
		}
		for _, uid := range []types.UID{"a", "b", "c", ""} {
			take(t, &q, t0, uid, 0)
		}
	})
	t.Run("one writer at a time", func(t *testing.T) {
		q := newQueue()
		q.add("a")
		take(t, &q, t0, "a", 0)
		q.add("a")
		take(t, &q, t0, "", 0)
		q.done("a")
		take(t, &q, t0, "a", 0)
		q.done("a")
		take(t, &q, t0, "", 0)
	})
	t.Run("later, the earliest wins", func(t *testing.T) {
		q := newQueue()
		q.addAt("a", t0.Add(5*time.Second))
		q.addAt("b", t0.Add(3*time.Second))
		q.addAt("a", t0.Add(time.Second))
		q.addAt("a", t0.Add(9*time.Second))
		take(t, &q, t0, "", time.Second)
		take(t, &q, t0.Add(time.Second), "a", 0)
		q.done("a")
		take(t, &q, t0.Add(time.Second), "", 2*time.Second)
		take(t, &q, t0.Add(time.Minute), "b", 0)
		take(t, &q, t0.Add(time.Minute), "", 0)
	})
	t.Run("now overrides later", func(t *testing.T) {
		q := newQueue()
		q.addAt("a", t0.Add(time.Second))
		q.add("a")
		q.addAt("a", t0.Add(time.Second))
		take(t, &q, t0, "a", 0)
		q.done("a")
		take(t, &q, t0.Add(time.Minute), "", 0)
	})
	t.Run("a retry swallows what was asked for meanwhile", func(t *testing.T) {
		q := newQueue()
		q.add("a")
		take(t, &q, t0, "a", 0)
		q.add("a")
		q.retryAt("a", t0.Add(time.Second))
		q.done("a")
		take(t, &q, t0, "", time.Second)
		take(t, &q, t0.Add(time.Second), "a", 0)
	})
	t.Run("forget", func(t *testing.T) {
		q := newQueue()
		q.addAt("a", t0)
		q.forget("a")
		take(t, &q, t0.Add(time.Minute), "", 0)
	})
}

func TestRecentForgets(t *testing.T) {
	r := newRecent()
	t0 := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	r.add("old", t0)
	r.add("new", t0.Add(recentTTL/2))
	if !r.has("old") || !r.has("new") {
		t.Error("a member was lost early")
	}
	r.add("late", t0.Add(recentTTL+time.Second))
	if r.has("old") || !r.has("new") || len(r.members) != 2 {
		t.Errorf("members %v", r.members)
	}
	if !r.take("new") || r.take("new") {
		t.Error("take does not take once")
	}
}

func TestManagersShareMetrics(t *testing.T) {
	bubble(t, func(h *harness) {
		other := New(Config{Client: namespaced{h.api}, Safety: h, Registerer: h.reg})
		if other.invalid != nil {
			t.Fatal(other.invalid)
		}
		if other.metrics.writes != h.metrics.writes || other.metrics.sync != h.metrics.sync {
			t.Error("a second manager on the same registry counts elsewhere")
		}
	})
}
