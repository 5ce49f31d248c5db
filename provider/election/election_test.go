package election

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend/gate"
)

func TestCleanEndHandsOverAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		a := contend(t, s, "a")
		settle(time.Minute)
		b := contend(t, s, "b")
		settle(time.Minute)
		if a.led() != 1 || b.led() != 0 || !a.term(0).Open() {
			t.Fatalf("terms %d and %d", a.led(), b.led())
		}
		// What ends takes longer than a lease lasts: it is renewed meanwhile.
		a.onEnd(func(held *gate.Gate) {
			time.Sleep(3 * duration)
			if !held.Open() || b.led() != 0 {
				t.Error("the lease was not kept until the last write")
			}
		})
		a.stop()
		a.ended(nil)
		if a.open() || s.holder() != "" {
			t.Errorf("gate open: %v, holder %q", a.open(), s.holder())
		}
		settle(2200 * time.Millisecond)
		if !b.term(0).Open() {
			t.Error("the next leader waits although the lease was released")
		}
		b.stop()
		b.ended(nil)
	})
}

// TestFrozenLeader has a leader frozen in every phase of its renewals: the next
// follows within the bound, never while the first can change anything, and what
// wakes stands by.
func TestFrozenLeader(t *testing.T) {
	worst := time.Duration(0)
	for offset := range 40 {
		synctest.Test(t, func(t *testing.T) {
			s := &server{}
			a := contend(t, s, "a")
			settle(10*time.Second + time.Duration(offset)*37*time.Millisecond)
			b := contend(t, s, "b")
			settle(20 * time.Second)
			frozen := make(chan struct{})
			a.wire.set(func(w *wire) { w.frozen = frozen })
			since := time.Now()
			for b.led() == 0 {
				settle(10 * time.Millisecond)
				if a.open() && b.open() {
					t.Fatal("two may change things")
				}
				if time.Since(since) > takeover {
					t.Fatalf("nobody leads after %v", takeover)
				}
			}
			worst = max(worst, time.Since(since))
			settle(time.Minute)
			a.wire.set(func(w *wire) { w.frozen = nil })
			close(frozen)
			settle(time.Second + time.Millisecond) // at its next renewal
			if len(a.standby) != 2 {
				t.Error("what woke does not stand by")
			}
			for range 600 {
				settle(10 * time.Millisecond)
				if a.open() {
					t.Fatal("what woke may change things")
				}
			}
			if a.led() != 1 || s.holder() != "b" {
				t.Errorf("a led %d times, %q holds", a.led(), s.holder())
			}
			b.stop()
			b.ended(nil)
			settle(2200 * time.Millisecond)
			if a.led() != 2 || !a.term(1).Open() || a.term(0).Open() {
				t.Error("what woke does not lead again with a gate of its own")
			}
			a.stop()
			a.ended(nil)
		})
	}
	t.Logf("the slowest takeover was %v after the freeze", worst)
}

// What another process had meanwhile is begun anew, even when it is free again: no
// term goes on with what it knew.
func TestLeaseThatWasAnothersMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		a := contend(t, s, "a")
		settle(10 * time.Second)
		b := contend(t, s, "b")
		frozen := make(chan struct{})
		a.wire.set(func(w *wire) { w.frozen = frozen })
		settle(time.Minute)
		b.stop()
		b.ended(nil)
		if b.led() != 1 || s.holder() != "" {
			t.Fatalf("b led %d times, %q holds", b.led(), s.holder())
		}
		a.wire.set(func(w *wire) { w.frozen = nil })
		close(frozen)
		settle(5 * time.Second)
		if a.led() != 2 || a.term(0).Open() || !a.term(1).Open() {
			t.Errorf("a led %d times, its first term goes on: %v", a.led(), a.term(0).Open())
		}
		a.stop()
		a.ended(nil)
	})
}

func TestOutageClosesTheGateAndLeadsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		a := contend(t, s, "a")
		settle(10 * time.Second)
		stopped := time.Time{}
		a.onEnd(func(held *gate.Gate) {
			if held.Open() {
				t.Error("stopped before the gate was closed")
			}
			stopped = time.Now()
		})
		cut := time.Now()
		a.wire.set(func(w *wire) { w.cut = true })
		settle(duration)
		if a.open() || stopped.IsZero() || stopped.Sub(cut) > deadline+retry {
			t.Errorf("open: %v, stopped after %v", a.open(), stopped.Sub(cut))
		}
		settle(time.Hour)
		a.wire.set(func(w *wire) { w.cut = false })
		settle(2200 * time.Millisecond)
		if !a.term(1).Open() || a.term(0).Open() {
			t.Error("it does not lead again")
		}
		a.onEnd(func(*gate.Gate) {})
		a.stop()
		a.ended(nil)
	})
}

// A reply that comes late gives no more time than one that comes at once.
func TestGateCountsFromTheAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		a := contend(t, s, "a")
		settle(10 * time.Second)
		a.wire.set(func(w *wire) { w.late = 5 * time.Second })
		settle(time.Second) // asked for, and done
		a.wire.set(func(w *wire) { w.cut = true })
		asked := s.lease.Spec.RenewTime.Time
		settle(time.Until(asked.Add(duration - duration/8 - time.Millisecond)))
		if !a.open() {
			t.Error("closed too soon")
		}
		settle(2 * time.Millisecond)
		if a.open() {
			t.Error("open seven eighths of a lease after the last renewal was asked for")
		}
		a.stop()
		a.ended(nil)
	})
}

func TestErrorOfTheLeaderReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		a := contend(t, s, "a")
		settle(time.Second)
		broken := errors.New("no remote")
		a.fail <- broken
		a.ended(broken)
		if s.holder() != "" || a.open() {
			t.Errorf("%q holds, open: %v", s.holder(), a.open())
		}
	})
}

// A renewal that is given up when the term ends may still be written, between the look at the
// Lease and its release.
func TestReleaseAfterAStrayRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		a := contend(t, s, "a")
		settle(time.Second)
		a.onEnd(func(*gate.Gate) { a.wire.set(func(w *wire) { w.stray = true }) })
		a.stop()
		a.ended(nil)
		if s.holder() != "" {
			t.Errorf("%q holds the lease", s.holder())
		}
	})
}

// What fails because its gate was closed by the clock lost the lease: it waits.
func TestErrorAfterTheLeaseIsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		a := contend(t, s, "a")
		settle(time.Second)
		frozen := make(chan struct{})
		a.wire.set(func(w *wire) { w.frozen = frozen })
		settle(duration)
		a.fail <- errors.New("PATCH: this process does not hold the node's lease now")
		close(frozen)
		a.wire.set(func(w *wire) { w.frozen = nil })
		settle(3 * time.Second)
		if a.led() != 2 || !a.term(1).Open() {
			t.Errorf("led %d times", a.led())
		}
		a.stop()
		a.ended(nil)
	})
}

func TestStuckLeaderEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		a := contend(t, s, "a")
		settle(10 * time.Second)
		a.onEnd(func(*gate.Gate) { time.Sleep(time.Hour) })
		a.wire.set(func(w *wire) { w.cut = true })
		began := time.Now()
		a.ended(ErrStuck)
		if took := time.Since(began); took > deadline+retry+defaultStopTimeout {
			t.Errorf("it took %v", took)
		}
		time.Sleep(time.Hour)
	})
}

func TestEndWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		a := contend(t, s, "a")
		settle(time.Second)
		b := contend(t, s, "b")
		settle(time.Second)
		b.stop()
		b.ended(nil)
		if b.led() != 0 || s.holder() != "a" {
			t.Errorf("led %d times, %q holds", b.led(), s.holder())
		}
		a.stop()
		a.ended(nil)
	})
}

// Who cannot reach the lease does not stand by, and says so; who leads is another
// matter.
func TestStandbyTellsOfItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		a := contend(t, s, "a")
		settle(time.Second)
		b := contend(t, s, "b")
		settle(time.Second)
		b.wire.set(func(w *wire) { w.cut = true })
		settle(time.Minute)
		b.wire.set(func(w *wire) { w.cut = false })
		a.wire.set(func(w *wire) { w.cut = true }) // shorter than its deadline
		settle(3 * time.Second)
		a.wire.set(func(w *wire) { w.cut = false })
		settle(3 * time.Second)
		if len(a.standby) != 1 || a.standby[0] != nil {
			t.Errorf("the leader told %v", a.standby)
		}
		if len(b.standby) != 3 || b.standby[0] != nil || b.standby[1] == nil || b.standby[2] != nil {
			t.Errorf("the other told %v", b.standby)
		}
		b.stop()
		b.ended(nil)
		a.stop()
		a.ended(nil)
	})
}

func TestNewRefuses(t *testing.T) {
	good := leaseConfig(&wire{}, "c")
	made := func(cfg LeaseConfig) error {
		lease, err := NewLease(cfg)
		if err != nil {
			return err
		}
		_, err = New(Config{Lease: lease})
		return err
	}
	for name, change := range map[string]func(*LeaseConfig){
		"no client":           func(c *LeaseConfig) { c.Leases = nil },
		"no namespace":        func(c *LeaseConfig) { c.Namespace = "" },
		"no name":             func(c *LeaseConfig) { c.Name = "" },
		"no identity":         func(c *LeaseConfig) { c.Identity = "" },
		"half a second":       func(c *LeaseConfig) { c.LeaseDuration += time.Second / 2 },
		"a long deadline":     func(c *LeaseConfig) { c.RenewDeadline = duration },
		"a long retry period": func(c *LeaseConfig) { c.RetryPeriod = deadline },
	} {
		cfg := good
		change(&cfg)
		if made(cfg) == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := New(Config{}); err == nil {
		t.Error("no lease: no error")
	}
	if err := made(good); err != nil {
		t.Error(err)
	}
}
