package election

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend/gate"
	"github.com/burstlet/burstlet/test/kit/lane"
)

// lands is true where the last change on the remote is this leader's.
func (r *remote) lands(holder string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.landed) > 0 && r.landed[len(r.landed)-1] == holder
}

// TestTermOutlivesTheAPIServer: with nobody else there a term goes on for as long as the
// API server is away, the remote may be away meanwhile too, and nothing begins anew.
func TestTermOutlivesTheAPIServer(t *testing.T) {
	for _, away := range []time.Duration{5 * time.Second, 10 * time.Second, time.Minute, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			s, r := &server{}, &remote{}
			a := contendAt(t, s, r, "a")
			settle(10 * time.Second)
			a.onEnd(func(*gate.Gate) { t.Error("the term ends") })
			a.wire.set(func(w *wire) { w.cut = true })
			for since := time.Now(); time.Since(since) < away; settle(100 * time.Millisecond) {
				if a.term(0).Permit("restart a container") != nil {
					t.Fatalf("nothing may be changed on the remote %v after the API server went", time.Since(since))
				}
			}
			if a.open() == (away > duration) {
				t.Errorf("the API may be written to: %v", a.open())
			}
			if told := a.goesWithout(); (away > duration) != slices.Equal(told, []bool{true}) {
				t.Errorf("%v without the API server: told %v of terms without a lease", away, told)
			}
			a.wire.set(func(w *wire) { w.farCut = true })
			settle(time.Minute)
			if a.term(0).Permit("restart a container") == nil {
				t.Error("what nobody has confirmed for a minute may be changed")
			}
			a.wire.set(func(w *wire) { w.farCut = false })
			settle(2 * time.Second)
			if err := a.term(0).Permit("restart a container"); err != nil {
				t.Errorf("the remote is there again: %v", err)
			}
			a.wire.set(func(w *wire) { w.cut = false })
			settle(2200 * time.Millisecond)
			if a.led() != 1 || !a.open() || s.holder() != "a" {
				t.Errorf("%d terms, open %v, %q holds", a.led(), a.open(), s.holder())
			}
			if told := a.goesWithout(); !slices.Equal(told, []bool{true, false}) {
				t.Errorf("the lease is renewed again: told %v", told)
			}
			a.onEnd(func(*gate.Gate) {})
			a.stop()
			a.ended(nil)
		})
	}
}

// TestSuccessorFences: whoever cannot see its successor does no harm after that one has
// taken the node on the remote, and its term ends.
func TestSuccessorFences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := &server{}, &remote{}
		a := contendAt(t, s, r, "a")
		settle(10 * time.Second)
		b := contendAt(t, s, r, "b")
		b.wire.set(func(w *wire) { w.farCut = true })
		a.wire.set(func(w *wire) { w.cut = true })
		settle(time.Minute)
		if b.led() != 1 || !r.lands("a/1") || a.term(0).Permit("x") != nil {
			t.Fatalf("b led %d times; a is to go on while b cannot reach the remote: %v", b.led(), r.landed)
		}
		b.wire.set(func(w *wire) { w.farCut = false })
		settle(retry + time.Millisecond)
		if !r.lands("b/1") || a.term(0).Permit("x") == nil {
			t.Errorf("a has not ended: %v", r.landed)
		}
		select {
		case <-a.term(0).Closed():
		default:
			t.Error("a's term goes on")
		}
		if told := a.goesWithout(); !slices.Equal(told, []bool{true, false}) {
			t.Errorf("its term has ended: told %v", told)
		}
		settle(time.Minute)
		a.wire.set(func(w *wire) { w.cut = false })
		settle(time.Minute)
		if want := []string{"a/1", "b/1"}; !slices.Equal(r.landed, want) || a.led() != 1 || b.led() != 1 {
			t.Errorf("changes of %v, want %v; %d and %d terms", r.landed, want, a.led(), b.led())
		}
		b.stop()
		b.ended(nil)
		settle(2200 * time.Millisecond)
		if a.led() != 2 || !r.lands("a/2") {
			t.Errorf("a does not lead again: %d terms, %v", a.led(), r.landed)
		}
		a.stop()
		a.ended(nil)
	})
}

// The API server names another leader while the remote cannot be reached.
func TestSuccessorInTheAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := &server{}, &remote{}
		a := contendAt(t, s, r, "a")
		settle(10 * time.Second)
		b := contendAt(t, s, r, "b")
		a.wire.set(func(w *wire) { w.cut, w.farCut = true, true })
		settle(time.Minute)
		a.wire.set(func(w *wire) { w.cut = false })
		settle(2200 * time.Millisecond)
		select {
		case <-a.term(0).Closed():
		default:
			t.Error("a's term goes on")
		}
		for _, c := range []*contender{a, b} {
			c.stop()
			c.ended(nil)
		}
	})
}

// A Lease that is gone after an outage says nothing of those who led meanwhile.
func TestLeaseIsGoneAfterTheOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := &server{}, &remote{}
		a := contendAt(t, s, r, "a")
		settle(10 * time.Second)
		a.wire.set(func(w *wire) { w.cut = true })
		settle(time.Minute)
		s.forget()
		a.wire.set(func(w *wire) { w.cut = false })
		settle(5 * time.Second)
		if a.led() != 2 || a.term(0).Permit("x") == nil || !r.lands("a/2") {
			t.Errorf("%d terms, %v", a.led(), r.landed)
		}
		a.stop()
		a.ended(nil)
	})
}

// TestDeletedLease: whoever makes the Lease anew waits for a leader that does not see it
// yet, if there may be one.
func TestDeletedLease(t *testing.T) {
	for _, former := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{}
			a := contend(t, s, "a")
			settle(10 * time.Second)
			b := contend(t, s, "b")
			b.former.Store(former)
			settle(time.Second)
			a.wire.set(func(w *wire) { w.cut = true }) // it does not see that it is deleted
			s.forget()
			doubled := false
			for range 300 {
				settle(50 * time.Millisecond)
				doubled = doubled || a.open() && b.open()
			}
			if doubled == former || b.led() != 1 {
				t.Errorf("a former leader: %v, two led at once: %v, b led %d times", former, doubled, b.led())
			}
			for _, c := range []*contender{a, b} {
				c.stop()
				c.ended(nil)
			}
		})
	}
}

// Two releases give a node one name: each has a lease, and they take the node from each
// other, at intervals.
func TestTwoLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{}
		a := contendAt(t, &server{}, r, "a")
		b := contendAt(t, &server{}, r, "b")
		settle(time.Hour)
		if n := a.led() + b.led(); n > int(time.Hour/(duration/2)) || n < 10 {
			t.Errorf("%d terms in an hour", n)
		}
		if !slices.Contains(a.told(), errGaveWay.Error()) {
			t.Error("a does not say why it does not lead")
		}
		for _, c := range []*contender{a, b} {
			c.stop()
			c.ended(nil)
		}
	})
}

// TestRandomOutages cuts, freezes and deletes at random: a leader that has a successor on
// the remote never changes anything there again, two never write to the API at once, and
// when all is well one leads.
func TestRandomOutages(t *testing.T) {
	for seed := range seeds(40) {
		synctest.Test(t, func(t *testing.T) {
			s, r := &server{}, &remote{}
			both := []*contender{contendAt(t, s, r, "a"), contendAt(t, s, r, "b")}
			both[0].former.Store(true)
			both[1].former.Store(true)
			storm := storm{random: rand.New(rand.NewPCG(seed, 0)), frozen: map[*contender]chan struct{}{}}
			for range 60 {
				storm.strike(both[storm.random.IntN(2)])
				for range storm.random.IntN(400) {
					settle(50 * time.Millisecond)
					if both[0].open() && both[1].open() {
						t.Fatalf("seed %d: two may write to the API", seed)
					}
				}
			}
			for _, c := range both {
				storm.heal(c)
			}
			settle(time.Minute)
			stale(t, seed, r)
			if both[0].open() == both[1].open() || !r.lands(fmt.Sprintf("%s/%d", s.holder(), leading(both, s.holder()).led())) {
				t.Errorf("seed %d: %q leads, but the last changes are of %v", seed, s.holder(), r.landed)
			}
			for _, c := range both {
				c.stop()
				c.ended(nil)
			}
		})
	}
}

// seeds is how many of n seeds are played: with the race detector a third, but for the lane of everything.
func seeds(n uint64) uint64 {
	if lane.Thinned() {
		return n / 3
	}
	return n
}

// storm is what happens to contenders.
type storm struct {
	random *rand.Rand
	frozen map[*contender]chan struct{}
}

func (s storm) strike(c *contender) {
	switch s.random.IntN(6) {
	case 0:
		c.wire.set(func(w *wire) { w.cut = !w.cut })
	case 1:
		c.wire.set(func(w *wire) { w.farCut = !w.farCut })
	case 2:
		if s.frozen[c] == nil {
			s.frozen[c] = make(chan struct{})
			c.wire.set(func(w *wire) { w.frozen = s.frozen[c] })
		}
	case 3:
		c.wire.server.forget()
	default:
		s.heal(c)
	}
}

func (s storm) heal(c *contender) {
	c.wire.set(func(w *wire) { w.cut, w.farCut, w.frozen = false, false, nil })
	if frozen := s.frozen[c]; frozen != nil {
		close(frozen)
		delete(s.frozen, c)
	}
}

// restart ends a node with an error, if it leads; its keeper starts it again.
func (s storm) restart(c *contender) {
	select {
	case c.fail <- errStorm:
	default:
	}
}

var errStorm = errors.New("storm")

// stale tells of leaders that changed the remote after their successors.
func stale(t *testing.T, seed uint64, r *remote) {
	t.Helper()
	if r == nil {
		return
	}
	seen := map[string]bool{}
	for _, holder := range r.landed {
		if seen[holder] {
			t.Errorf("seed %d: %s changed the remote after its successor: %v", seed, holder, r.landed)
		}
		seen[holder] = true
	}
}

func leading(all []*contender, name string) *contender {
	return all[slices.IndexFunc(all, func(c *contender) bool { return c.name == name })]
}

// told are the errors that were told of standing by.
func (c *contender) told() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, err := range c.standby {
		if err != nil {
			all = append(all, err.Error())
		}
	}
	return all
}
