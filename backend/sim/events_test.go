package sim

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// TestHintsAreInOrder: each attempt is hinted at once, at the time that was said last; of one time they come as they
// were said.
func TestHintsAreInOrder(t *testing.T) {
	type said struct{ of, at int } // attempt 9 is another node's; at 0 is never
	for name, tt := range map[string]struct {
		said []said
		want string
	}{
		"none":                    {nil, ""},
		"by their times":          {[]said{{0, 5}, {1, 3}, {2, 4}}, "1@3 2@4 0@5"},
		"of one time":             {[]said{{2, 5}, {0, 5}, {1, 5}}, "2@5 0@5 1@5"},
		"earlier than before":     {[]said{{0, 5}, {1, 3}, {0, 1}}, "0@1 1@3"},
		"later than before":       {[]said{{0, 1}, {1, 3}, {0, 5}}, "1@3 0@5"},
		"the same time again":     {[]said{{0, 5}, {1, 5}, {0, 5}}, "1@5 0@5"},
		"never any more":          {[]said{{0, 5}, {1, 3}, {1, 0}}, "0@5"},
		"never, and never before": {[]said{{0, 0}}, ""},
		"never, and then again":   {[]said{{0, 5}, {0, 0}, {0, 7}}, "0@7"},
		"the first of many never": {[]said{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {0, 0}, {4, 2}}, "1@2 4@2 2@3 3@4"},
		"the last of many never":  {[]said{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {3, 0}, {4, 2}}, "0@1 1@2 4@2 2@3"},
		"of another node":         {[]said{{9, 1}, {0, 2}}, "0@2"},
	} {
		q := &hintQueue{node: "n", entries: map[*attempt]*hint{}}
		attempts := map[int]*attempt{9: {node: "other"}}
		names := map[*attempt]int{}
		for _, s := range tt.said {
			if attempts[s.of] == nil {
				attempts[s.of] = &attempt{node: "n"}
			}
			names[attempts[s.of]] = s.of
			q.schedule(attempts[s.of], moment(s.at))
		}
		for i, e := range q.heap {
			if e.index != i || q.entries[e.attempt] != e {
				t.Errorf("%s: hint %d of %d cannot be found", name, i, names[e.attempt])
			}
		}
		var got []string
		for len(q.heap) > 0 {
			first := q.heap[0]
			got = append(got, fmt.Sprintf("%d@%s", names[first.attempt], seen(first.at)))
			q.schedule(first.attempt, time.Time{})
		}
		if s := strings.Join(got, " "); s != tt.want || len(q.entries) > 0 {
			t.Errorf("%s: %s and %d left, want %s", name, s, len(q.entries), tt.want)
		}
	}
}

// TestWhatIsDue: those that changed by now, whose next change is awaited then.
func TestWhatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Config{Node: "n"})
		begun := time.Now()
		after := func(seconds int) time.Time { return begun.Add(time.Duration(seconds) * time.Second) }
		for uid, times := range map[types.UID][2]int{"a": {2, 4}, "b": {3, 9}} {
			c := &container{started: after(times[0]), finished: after(times[1])}
			r.insert(&attempt{node: "n", ref: backend.Ref{UID: uid}, containers: []*container{c}})
		}
		v := eventsView{&view{r, "n"}}
		q := v.subscribe()
		for i, want := range []string{
			"[] 2", "[] 2", "[a] 3", "[b] 4", "[a] 9", "[] 9", "[] 9", "[] 9", "[] 9", "[b] -", "[] -",
		} {
			uids, next := v.due(q)
			at := "-"
			if !next.IsZero() {
				at = fmt.Sprint(next.Sub(begun).Seconds())
			}
			if got := fmt.Sprint(uids, " ", at); got != want {
				t.Errorf("after %d s: %s, want %s", i, got, want)
			}
			time.Sleep(time.Second)
		}
		v.unsubscribe(q)
		if len(r.hints) != 0 {
			t.Error("who left is still told")
		}
	})
}

// TestHintsEnd: with their context, whether there is nothing to tell, something to come, or nobody who takes it.
func TestHintsEnd(t *testing.T) {
	for name, finished := range map[string]time.Duration{"nothing": 0, "to come": time.Hour, "not taken": time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := New(Config{})
				if finished > 0 {
					c := &container{started: time.Now(), finished: time.Now().Add(finished)}
					r.insert(&attempt{node: "sim", ref: backend.Ref{UID: "u"}, containers: []*container{c}})
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				begun := time.Now()
				err := r.Backend().Events.Run(ctx, make(chan types.UID))
				if took := time.Since(begun); backend.Class(err) != "Unavailable" || took != time.Minute {
					t.Errorf("%v after %v", err, took)
				}
				if len(r.hints) != 0 {
					t.Error("who left is still told")
				}
			})
		})
	}
}
