package election

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// wish is what a term writes that takes the Lease from another holder.
func wish(transitions int) resourcelock.LeaderElectionRecord {
	now := metav1.Now()
	return resourcelock.LeaderElectionRecord{
		HolderIdentity: "a", LeaseDurationSeconds: int(duration / time.Second), RenewTime: now, AcquireTime: now,
		LeaderTransitions: transitions,
	}
}

// joined returns a Lease that two terms have looked at and the first holds.
func joined(t *testing.T, s *server) (l *Lease, first, second *member) {
	t.Helper()
	l, first, second = newLease(t, &wire{server: s}, "a"), &member{}, &member{}
	if _, err := l.create(t.Context(), first, wish(0)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.get(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	return l, first, second
}

// TestDecisionOnAnOldVersion: that another node of the process has read the Lease since does not
// make a write pass which was decided before.
func TestDecisionOnAnOldVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		s.held("other", 0)
		l, slow, quick := newLease(t, &wire{server: s}, "a"), &member{}, &member{}
		if _, err := l.get(t.Context(), slow); err != nil {
			t.Fatal(err)
		}
		settle(duration) // it has run out, as far as slow can see
		s.held("other", 0)
		if _, err := l.get(t.Context(), quick); err != nil {
			t.Fatal(err)
		}
		if _, err := l.renew(t.Context(), slow, wish(1)); !errors.Is(err, errOutdated) || s.holder() != "other" {
			t.Errorf("%q holds the lease that other had renewed; %v", s.holder(), err)
		}
		settle(duration)
		if _, err := l.renew(t.Context(), quick, wish(1)); err != nil || s.holder() != "a" {
			t.Errorf("%q holds the lease that had run out; %v", s.holder(), err)
		}
		// Who joins is no new leader, whatever it saw.
		settle(retry)
		if _, err := l.renew(t.Context(), slow, wish(7)); err != nil || *s.lease.Spec.LeaseTransitions != 1 {
			t.Errorf("%d transitions, %v", *s.lease.Spec.LeaseTransitions, err)
		}
	})
}

// TestLeaseWasAnothersBetweenTwoLooks: one node has the Lease again before the other sees that it
// was lost. That one's term ends all the same.
func TestLeaseWasAnothersBetweenTwoLooks(t *testing.T) {
	taken := func(t *testing.T, s *server, _ *Lease, _ *member) { s.held("other", 1); s.held("", 1) }
	for name, c := range map[string]struct {
		meanwhile func(*testing.T, *server, *Lease, *member)
		ends      bool
	}{
		"another held it": {taken, true},
		"deleted for a long time": {
			func(_ *testing.T, s *server, _ *Lease, _ *member) { settle(duration); s.forget() }, true,
		},
		"deleted a moment ago":        {func(_ *testing.T, s *server, _ *Lease, _ *member) { s.forget() }, false},
		"not renewed for a long time": {func(*testing.T, *server, *Lease, *member) { settle(time.Hour) }, false},
		"released by the last node": {func(t *testing.T, _ *server, l *Lease, m *member) {
			if err := l.leave(t.Context(), &member{epoch: m.epoch}); err != nil {
				t.Fatal(err)
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{}
				l, first, second := joined(t, s)
				settle(retry)
				c.meanwhile(t, s, l, first)
				settle(retry)
				// The second node takes it, as an election would.
				_, err := l.get(t.Context(), second)
				if s.lease == nil {
					_, err = l.create(t.Context(), second, wish(0))
				} else if err == nil {
					_, err = l.renew(t.Context(), second, wish(2))
				}
				if err != nil || s.holder() != "a" {
					t.Fatalf("the second node: %v, %q holds", err, s.holder())
				}
				_, looked := l.get(t.Context(), first)
				_, renewed := l.renew(t.Context(), first, wish(0))
				if errors.Is(looked, errBroken) != c.ends || errors.Is(renewed, errBroken) != c.ends {
					t.Errorf("the first node looks: %v, and renews: %v; its term is to end: %v", looked, renewed, c.ends)
				}
				if _, err := l.renew(t.Context(), second, wish(0)); err != nil {
					t.Errorf("the second node renews: %v", err)
				}
			})
		})
	}
}

// TestReleaseIsSeenAtOnce: who joins just after the last node gave the Lease up is not told of the
// renewal before.
func TestReleaseIsSeenAtOnce(t *testing.T) {
	for name, mute := range map[string]bool{"released": false, "released, and the reply lost": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{}
				l, first, second := joined(t, s)
				l.cfg.Leases.(*wire).set(func(w *wire) { w.mute = mute })
				if err := l.leave(t.Context(), first); (err != nil) != mute || s.holder() != "" {
					t.Fatalf("%q holds after the last has left; %v", s.holder(), err)
				}
				if _, err := l.renew(t.Context(), second, wish(0)); err == nil || s.holder() != "" {
					t.Fatalf("%v, and %q holds: it decided on what was before", err, s.holder())
				}
				if record, err := l.get(t.Context(), second); err != nil || record.HolderIdentity != "" {
					t.Fatalf("%v, %v", record, err)
				}
				if _, err := l.renew(t.Context(), second, wish(1)); err != nil || s.holder() != "a" {
					t.Errorf("%v, %q holds", err, s.holder())
				}
			})
		})
	}
}

// TestLastToLeaveReleases: while one node leads by the Lease it is not given up, and one that stood
// by beside it has no say.
func TestLastToLeaveReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		l, first, second := joined(t, s)
		if _, err := l.renew(t.Context(), second, wish(0)); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			leaves *member
			want   string
		}{{&member{}, "a"}, {first, "a"}, {first, "a"}, {second, ""}} {
			if err := l.leave(t.Context(), c.leaves); err != nil || s.holder() != c.want {
				t.Fatalf("%q holds, want %q; %v", s.holder(), c.want, err)
			}
		}
	})
}

// TestCallThatIsGivenUp: the end of one node's term ends its call, and is no failure for others.
func TestCallThatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		s.held("other", 0)
		w := &wire{server: s, cut: true, hang: time.Hour}
		l := newLease(t, w, "a")
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() { _, err := l.get(ctx, &member{}); ended <- err }()
		synctest.Wait()
		go func() { _, err := l.get(t.Context(), &member{}); ended <- err }()
		synctest.Wait()
		w.set(func(w *wire) { w.cut = false })
		stop()
		if err := <-ended; err == nil {
			t.Error("a call that was given up has succeeded")
		}
		if err := <-ended; err != nil {
			t.Errorf("the other node's look: %v", err)
		}
	})
}

// TestCallThatIsGivenUpInAnOutage: where the last call failed, one that its node gives up is not
// made again by all who waited for it.
func TestCallThatIsGivenUpInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes = 50
		w := &wire{server: &server{}, cut: true}
		l := newLease(t, w, "a")
		if _, err := l.get(t.Context(), &member{}); err == nil {
			t.Fatal("a call has succeeded while the API server is away")
		}
		settle(retry)
		w.set(func(w *wire) { w.hang = time.Hour })
		ended := make(chan error, nodes)
		for i := range nodes {
			ctx, stop := context.WithTimeout(t.Context(), deadline+time.Duration(i)*time.Millisecond)
			defer stop()
			go func() { _, err := l.get(ctx, &member{}); ended <- err }()
			synctest.Wait()
		}
		for range nodes {
			if err := <-ended; err == nil {
				t.Error("a call that was given up has succeeded")
			}
		}
		if w.calls != 2 {
			t.Errorf("%d calls, want that which failed and that which was given up", w.calls)
		}
	})
}

// TestSharedRenewalCountsFromItsAsking: who is told of a renewal that another node asked for has the
// Lease for as long as that one.
func TestSharedRenewalCountsFromItsAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		began := time.Now()
		l, _, second := joined(t, s)
		for _, c := range []struct{ after, asked time.Duration }{
			{0, 0}, {retry / 2, 0}, {retry, retry}, {3 * retry / 2, retry},
		} {
			settle(time.Until(began.Add(c.after)))
			if asked, err := l.renew(t.Context(), second, wish(0)); err != nil || !asked.Equal(began.Add(c.asked)) {
				t.Errorf("after %v it counts from %v, want %v; %v", c.after, asked.Sub(began), c.asked, err)
			}
		}
		if _, writes := s.counts(); writes != 2 {
			t.Errorf("%d writes", writes)
		}
	})
}
