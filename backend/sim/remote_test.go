package sim

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// TestLimitsOfARemote: what takes longer is given longer; who is not told of changes looks more often.
func TestLimitsOfARemote(t *testing.T) {
	const s = time.Second
	for name, tt := range map[string]struct {
		given Config
		want  backend.Limits
	}{
		"nothing": {Config{}, backend.Limits{Call: 30 * s, Pull: 60 * s, Relist: 10 * s}},
		"slow": {
			Config{Latency: Latency{API: 1 * s, Launch: 2 * s, Pull: 4 * s, Start: 8 * s, Stop: 16 * s}},
			backend.Limits{Settle: s, Call: 41 * s, Pull: 64 * s, Relist: 10 * s},
		},
		"no events": {Config{NoEvents: true}, backend.Limits{Call: 30 * s, Pull: 60 * s, Relist: s}},
		"tasks":     {Config{PodUnit: true}, backend.Limits{Call: 30 * s, Pull: 60 * s, Relist: 10 * s}},
		"health of tasks": {
			Config{PodUnit: true, Health: true},
			backend.Limits{Call: 30 * s, Pull: 60 * s, Relist: 10 * s, Supervised: true},
		},
		"health without them": {Config{Health: true}, backend.Limits{Call: 30 * s, Pull: 60 * s, Relist: 10 * s}},
	} {
		tt.want.Runtime = "sim"
		if diff := cmp.Diff(tt.want, New(tt.given).Backend().Limits); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestWhatIsGoneTakesNoRoom: the rest stays in its order, and is found.
func TestWhatIsGoneTakesNoRoom(t *testing.T) {
	r := New(Config{})
	const launched = 500
	for i := range launched {
		r.insert(&attempt{ref: backend.Ref{UID: types.UID(fmt.Sprint(i % 100)), Attempt: i / 100}})
	}
	want := ""
	for i, a := range append([]*attempt(nil), r.order...) {
		if i%20 == 7 {
			want += fmt.Sprintf("%s/%d ", a.ref.UID, a.ref.Attempt)
			continue
		}
		r.drop(a)
		r.drop(a) // once is enough
	}
	got := ""
	for _, f := range r.Facts() {
		got += fmt.Sprintf("%s/%d ", f.Ref.UID, f.Ref.Attempt)
	}
	if got != want {
		t.Errorf("left are %s, want %s", got, want)
	}
	if len(r.order) > 200 || len(r.index) != launched/20 || len(r.pods) != 5 {
		t.Errorf("%d places, %d attempts of %d pods", len(r.order), len(r.index), len(r.pods))
	}
	for a, i := range r.index {
		if r.order[i] != a || r.find("", a.ref, time.Now()) != a {
			t.Errorf("%s/%d is not where it is said to be", a.ref.UID, a.ref.Attempt)
		}
	}
}

// TestEvict: what runs in a pod is stopped, and that it was evicted is known until it is gone.
func TestEvict(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg        Config
		containers []Life
		removed    bool
		want       string
	}{
		"nothing there":     {removed: true, want: "false"},
		"nothing runs":      {containers: []Life{{}}, want: "false not evicted 0"},
		"one runs":          {containers: []Life{{RunFor: -1}}, want: "true evicted 1"},
		"one does not stop": {containers: []Life{{RunFor: -1, IgnoreTerm: true}}, want: "true evicted 3"},
		"one of two runs":   {containers: []Life{{}, {RunFor: -1, StopTakes: time.Second}}, want: "true evicted 0 2"},
		"of a task":         {cfg: Config{PodUnit: true}, containers: []Life{{RunFor: -1}}, want: "false not evicted -"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := New(tt.cfg)
				begun := time.Now()
				a := &attempt{node: "sim", ref: backend.Ref{UID: "u"}, created: begun, ready: begun}
				for i, life := range tt.containers {
					c := &container{name: fmt.Sprint(i), created: begun, program: program{Life: life}}
					a.containers = append(a.containers, c)
				}
				if !tt.removed {
					r.insert(a)
					r.project(a, begun)
				}
				time.Sleep(time.Second)
				got := fmt.Sprint(r.Evict("u", backend.Eviction{Message: "too much"}))
				time.Sleep(time.Minute)
				for _, f := range r.Facts() {
					got += map[bool]string{true: " evicted", false: " not evicted"}[f.Evicted != nil]
					for _, c := range f.Containers {
						at := "-"
						if !c.FinishedAt.IsZero() {
							at = fmt.Sprint(c.FinishedAt.Sub(begun).Seconds())
						}
						got += " " + at
					}
				}
				if got != tt.want {
					t.Errorf("%s, want %s", got, tt.want)
				}
				if r.Evict("u", backend.Eviction{}) && !tt.cfg.PodUnit {
					t.Error("what has ended was evicted")
				}
				r.Vanish("u")
				if len(r.evicted) > 0 {
					t.Error("it is known of what is gone")
				}
			})
		})
	}
}

// TestKillsAreTold: those after a mark, at once where there are some, else when they come.
func TestKillsAreTold(t *testing.T) {
	for name, tt := range map[string]struct {
		mark  string
		class string
		want  string // kills, the next mark and when
	}{
		"who knows none":        {"", "", "[] 2 0s"},
		"after none":            {"0", "", "[first second] 2 0s"},
		"after one":             {"1", "", "[second] 2 0s"},
		"after all":             {"2", "", "[third] 3 1s"},
		"after more than there": {"9", "Unavailable", "[]  1m0s"},
		"no mark":               {"x", "Invalid", "[]  0s"},
		"a negative one":        {"-1", "Invalid", "[]  0s"},
		"part of one":           {"1.5", "Invalid", "[]  0s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := New(Config{})
				r.KillForMemory("first", 1)
				r.KillForMemory("second", 2)
				time.AfterFunc(time.Second, func() { r.KillForMemory("third", 3) })
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				begun := time.Now()
				kills, err := r.Backend().SystemOOMs.Await(ctx, tt.mark)
				names := []string{}
				for _, k := range kills.Kills {
					names = append(names, k.Process)
				}
				got := fmt.Sprint(names, " ", kills.Mark, " ", time.Since(begun))
				if got != tt.want || backend.Class(err) != tt.class {
					t.Errorf("%s (%v), want %s", got, err, tt.want)
				}
			})
		})
	}
}

// TestRecordsOfPullsAreANodes: each has its own, and what a caller does to them is its own affair.
func TestRecordsOfPullsAreANodes(t *testing.T) {
	r := New(Config{})
	one, two := r.BackendFor("one").PullRecords, r.BackendFor("two").PullRecords
	read := func(from backend.PullRecords) string {
		data, err := from.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		for i := range data {
			data[i] = 'x'
		}
		return text
	}
	for i, step := range []struct {
		save      string
		one, none string
	}{{"", "", ""}, {"a", "a", ""}, {"bc", "bc", ""}, {"", "", ""}} {
		data := []byte(step.save)
		if err := one.Save(t.Context(), data); err != nil {
			t.Fatal(err)
		}
		for i := range data {
			data[i] = 'x'
		}
		if got := read(one) + "," + read(one) + "," + read(two); got != step.one+","+step.one+","+step.none {
			t.Errorf("step %d: %s", i, got)
		}
	}
}
