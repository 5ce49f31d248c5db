package election

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend/gate"
	"github.com/burstlet/burstlet/test/kit/lane"
)

// end ends nodes at once.
func end(nodes ...*contender) {
	for _, c := range nodes {
		c.stop()
	}
	for _, c := range nodes {
		c.ended(nil)
	}
}

// TestManyNodesOfOneLease: whatever the number of nodes, their process renews the Lease about
// once in a period, and a process that stands by reads it as often.
func TestManyNodesOfOneLease(t *testing.T) {
	lane.RacedFrom(t, lane.All)
	synctest.Test(t, func(t *testing.T) {
		const count = 100
		s := &server{}
		a := process(t, s, "a", make([]*remote, count)...)
		settle(10 * time.Second)
		b := process(t, s, "b", make([]*remote, count)...)
		for i, c := range a { // each in a phase of its own
			settle(time.Duration(i) * 7 * time.Millisecond)
			end(c)
			c.start()
		}
		settle(10 * time.Second)
		s.counts()
		settle(time.Minute)
		reads, writes := s.counts()
		t.Logf("in a minute %d reads and %d writes", reads, writes)
		// A renewal is good for 7/8 of a period, what was read of another for 5/4.
		if most := int(time.Minute/retry)*8/7 + 1; writes > most {
			t.Errorf("%d writes in a minute, want at most %d", writes, most)
		}
		if most := int(time.Minute/retry)*4/5 + 1; reads > most {
			t.Errorf("%d reads in a minute, want at most %d", reads, most)
		}
		for i := range count {
			if !a[i].open() || b[i].led() != 0 || a[i].led() != 2 {
				t.Fatalf("node %d: %d and %d terms, open: %v", i, a[i].led(), b[i].led(), a[i].open())
			}
		}
		end(b...)
		end(a...)
	})
}

// TestKilledProcessOfManyNodes: another process follows on every node within the bound, and never
// while the first can change anything.
func TestKilledProcessOfManyNodes(t *testing.T) {
	worst := time.Duration(0)
	for offset := range 40 {
		synctest.Test(t, func(t *testing.T) {
			s := &server{}
			a := process(t, s, "a", make([]*remote, 3)...)
			settle(10*time.Second + time.Duration(offset)*37*time.Millisecond)
			b := process(t, s, "b", make([]*remote, 3)...)
			settle(20 * time.Second)
			frozen := make(chan struct{})
			a[0].wire.set(func(w *wire) { w.frozen = frozen })
			since := time.Now()
			for b[0].led()*b[1].led()*b[2].led() == 0 {
				settle(10 * time.Millisecond)
				for i := range a {
					if a[i].open() && b[i].open() {
						t.Fatal("two may change things")
					}
				}
				if time.Since(since) > takeover {
					t.Fatalf("nobody leads after %v: %d, %d, %d terms", takeover, b[0].led(), b[1].led(), b[2].led())
				}
			}
			worst = max(worst, time.Since(since))
			close(frozen)
			settle(time.Minute)
			for i := range a {
				if a[i].open() || !b[i].open() || a[i].led() != 1 {
					t.Errorf("node %d: what was frozen may change things: %v, %d terms", i, a[i].open(), a[i].led())
				}
			}
			end(b...)
			end(a...)
		})
	}
	t.Logf("the slowest takeover was %v after the freeze", worst)
}

// TestNodeFailsAlone: one node of several ends and starts again while the others go on; the Lease
// is given up with the last.
func TestNodeFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		a := process(t, s, "a", nil, nil, nil)
		settle(10 * time.Second)
		b := process(t, s, "b", nil, nil, nil)
		settle(10 * time.Second)
		broken := errors.New("no remote")
		for range 5 {
			a[1].fail <- broken
			a[1].ended(broken)
			if s.holder() != "a" {
				t.Fatalf("%q holds the lease of nodes that go on", s.holder())
			}
			a[1].start()
			settle(1800 * time.Millisecond)
		}
		if a[0].led() != 1 || a[1].led() != 6 || !a[1].open() || b[1].led() != 0 {
			t.Errorf("%d, %d and %d terms, the failed node leads: %v", a[0].led(), a[1].led(), b[1].led(), a[1].open())
		}
		a[2].onEnd(func(held *gate.Gate) {
			time.Sleep(3 * duration)
			if !held.Open() || s.holder() != "a" {
				t.Error("the lease was not kept until the last write")
			}
		})
		end(a...)
		if s.holder() != "" {
			t.Fatalf("%q holds the lease that nobody leads by", s.holder())
		}
		settle(1800 * time.Millisecond)
		for i, c := range b {
			if c.led() != 1 || !c.open() {
				t.Errorf("node %d: the next leader waits although the lease was released", i)
			}
		}
		end(b...)
	})
}

// TestOneNodeGivesWay: another release takes one of the nodes on its remote, by a Lease of its own.
// The other nodes lead on.
func TestOneNodeGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := &server{}, &remote{}
		a := process(t, s, "a", r, &remote{}, nil)
		settle(10 * time.Second)
		other := contendAt(t, &server{}, r, "other")
		settle(time.Hour)
		if a[0].led() < 10 || other.led() < 10 || a[0].led()+other.led() > int(time.Hour/(duration/2)) {
			t.Errorf("%d and %d terms of one node in an hour", a[0].led(), other.led())
		}
		if a[1].led() != 1 || a[2].led() != 1 || !a[1].open() || !a[2].open() || s.holder() != "a" {
			t.Errorf("its neighbours had %d and %d terms", a[1].led(), a[2].led())
		}
		end(a...)
		end(other)
		if s.holder() != "" {
			t.Errorf("%q holds", s.holder())
		}
	})
}

// TestOutageOfManyNodes: while the API server is away a node whose remote tells leaders apart goes
// on, another stops, and each does what it does alone when the API server is back.
func TestOutageOfManyNodes(t *testing.T) {
	for name, successor := range map[string]bool{"nobody led meanwhile": false, "another led meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, r := &server{}, &remote{}
				a := process(t, s, "a", r, nil)
				settle(10 * time.Second)
				a[0].wire.set(func(w *wire) { w.cut = true })
				settle(time.Minute)
				if a[0].term(0).Permit("restart a container") != nil || a[1].term(0).Permit("x") == nil {
					t.Fatal("the node on a host is to go on, the other to stop")
				}
				if successor {
					b := process(t, s, "b", nil, nil) // it cannot reach the host
					settle(time.Minute)
					end(b...)
				}
				a[0].wire.set(func(w *wire) { w.cut = false })
				settle(5 * time.Second)
				want := 1
				if successor {
					want = 2
				}
				if a[0].led() != want || a[1].led() != 2 || !a[0].open() || !a[1].open() {
					t.Errorf("%d and %d terms, want %d and 2", a[0].led(), a[1].led(), want)
				}
				end(a...)
			})
		})
	}
}

// TestSlowAPIServer: calls take as long as the pause between renewals. Whoever waits for its turn
// is content with what others asked since.
func TestSlowAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		a := process(t, s, "a", make([]*remote, 50)...)
		settle(10 * time.Second)
		a[0].wire.set(func(w *wire) { w.late = 900 * time.Millisecond })
		for range 600 {
			settle(100 * time.Millisecond)
			for i, c := range a {
				if !c.open() {
					t.Fatalf("node %d may change nothing, for others renew the lease before it", i)
				}
			}
		}
		a[0].wire.set(func(w *wire) { w.late = 0 })
		end(a...)
	})
}

// TestFailureIsShared: who waited while a call failed does not make it again.
func TestFailureIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		a := process(t, s, "a", make([]*remote, 50)...)
		settle(10 * time.Second)
		w := a[0].wire
		w.set(func(w *wire) { w.cut, w.hang, w.calls = true, 3*time.Second, 0 })
		settle(time.Minute)
		w.mu.Lock()
		calls := w.calls
		w.mu.Unlock()
		t.Logf("%d calls that fail after 3 s, in a minute", calls)
		if calls > int(time.Minute/(3*time.Second))+2 {
			t.Errorf("%d calls that fail after 3 s each, in a minute", calls)
		}
		if a[7].open() || len(a[7].told()) != 1 {
			t.Errorf("a node told %v", a[7].told())
		}
		w.set(func(w *wire) { w.cut = false })
		settle(6 * time.Second)
		for i, c := range a {
			if !c.open() {
				t.Errorf("node %d does not lead again", i)
			}
		}
		end(a...)
	})
}

// TestNodesOfANewLease: a node that joins the maker of a Lease waits for a former leader as the
// maker does, and no longer.
func TestNodesOfANewLease(t *testing.T) {
	for name, lost := range map[string]bool{"made": false, "made, and the reply lost": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{}
				s.held("former", 0)
				s.forget()
				w := &wire{server: s, mute: lost}
				lease := newLease(t, w, "a")
				began := time.Now()
				var all []*contender
				for i := range 4 {
					all = append(all, stand(t, w, lease, nil, "a", 0, func(c *contender) {
						c.former.Store(i != 2) // its Node is new
					}))
					settle(3 * time.Second)
				}
				settle(time.Minute)
				for i, c := range all {
					waited := c.began[0].Sub(began)
					soonest, latest := duration, duration+200*time.Millisecond
					if i > 1 { // after 6 s, its Node is new, and after 9 s
						soonest, latest = time.Duration(3*i)*time.Second, time.Duration(3*i)*time.Second+2200*time.Millisecond
					}
					if waited < soonest || waited > latest || c.led() != 1 {
						t.Errorf("node %d led %v after the Lease was gone, want %v to %v", i, waited, soonest, latest)
					}
				}
				end(all...)
			})
		})
	}
}

// TestLeaseIsDeletedUnderManyNodes: its holder makes it again, and no term ends.
func TestLeaseIsDeletedUnderManyNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		a := process(t, s, "a", &remote{}, nil, nil)
		settle(10 * time.Second)
		for range 10 {
			s.forget()
			settle(2300 * time.Millisecond)
			for i, c := range a {
				if c.led() != 1 || !c.open() || s.holder() != "a" {
					t.Fatalf("node %d: %d terms, open %v, %q holds", i, c.led(), c.open(), s.holder())
				}
			}
		}
		end(a...)
	})
}

// TestRandomOutagesOfManyNodes is TestRandomOutages for processes with several nodes of one Lease,
// which fail and start again by themselves: no node ever has two that may write to the API, and when
// all is well one process leads all of them.
func TestRandomOutagesOfManyNodes(t *testing.T) {
	for seed := range seeds(20) {
		synctest.Test(t, func(t *testing.T) {
			s := &server{}
			remotes := []*remote{{}, nil, {}}
			a, b := process(t, s, "a", remotes...), process(t, s, "b", remotes...)
			both := append(append([]*contender{}, a...), b...)
			for _, c := range both {
				c.former.Store(true)
			}
			storm := storm{random: rand.New(rand.NewPCG(seed, 0)), frozen: map[*contender]chan struct{}{}}
			for range 60 {
				if storm.random.IntN(3) == 0 {
					storm.restart(both[storm.random.IntN(len(both))])
				} else {
					storm.strike([]*contender{a[0], b[0]}[storm.random.IntN(2)])
				}
				for range storm.random.IntN(400) {
					settle(50 * time.Millisecond)
					for i := range a {
						if a[i].open() && b[i].open() {
							t.Fatalf("seed %d: two may write to the API as node %d", seed, i)
						}
					}
				}
			}
			storm.heal(a[0])
			storm.heal(b[0])
			settle(time.Minute)
			for i := range a {
				if a[i].open() != (s.holder() == "a") || b[i].open() != (s.holder() == "b") {
					t.Errorf("seed %d: %q holds; node %d is led: %v and %v", seed, s.holder(), i, a[i].open(), b[i].open())
				}
				leads := leading([]*contender{a[i], b[i]}, s.holder())
				if r := remotes[i]; r != nil && !r.lands(fmt.Sprintf("%s/%d", s.holder(), leads.led())) {
					t.Errorf("seed %d: %q holds, but the last changes of node %d are of %v", seed, s.holder(), i, r.landed)
				}
				stale(t, seed, remotes[i])
			}
			end(both...)
		})
	}
}
