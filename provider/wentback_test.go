package provider

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

func TestOlder(t *testing.T) {
	for _, tc := range []struct {
		version, seen string
		want          bool
	}{
		{"11", "10", false},
		{"10", "10", false},
		{"9", "10", true},
		{"998", "1000", true},
		{"1000", "998", false},
		{"9", "", false},
		{"", "10", false},
		{"a", "b", false},
	} {
		if got := older(tc.version, tc.seen); got != tc.want {
			t.Errorf("%q after %q: %v", tc.version, tc.seen, got)
		}
	}
}

// Only an answer to who asked after a newer one had come says that the API went back.
func TestAnAnswerThatWasOvertaken(t *testing.T) {
	m, err := newMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := newWatcher(Holder{}, m.foreign, func(context.Context, *Holder) {})
	if err != nil {
		t.Fatal(err)
	}
	back := 0
	w.back = func() { back++ }
	saw := func(version, newest string, want int) {
		t.Helper()
		lease := newLease("n1", time.Now())
		lease.ResourceVersion = version
		if w.saw(t.Context(), lease, newest); back != want {
			t.Errorf("version %s, asked for at %q: went back %d times, want %d", version, newest, back, want)
		}
	}
	saw("10", w.newest(), 0)
	overtaken := w.newest()
	saw("12", w.newest(), 0)
	saw("11", overtaken, 0)
	saw("11", w.newest(), 1)
}

// An API server that is restored from a backup has an older lease, which is renewed there: the
// node ends within two renewals. With or without node.onOtherProcess.
func TestNodeEndsWhenTheAPIServerWentBack(t *testing.T) {
	for yields, skipped := range map[bool]int64{false: 0, true: 1000} { // that the API server reaches before
		synctest.Test(t, func(t *testing.T) {
			r := newRival(t, nil, Holder{Process: "a", Election: "one/burstlet-n1"}, yields)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var group sync.WaitGroup
			r.start(ctx, &group)
			r.settle(35 * time.Second)
			backup := r.lease().DeepCopy()
			r.settle(5 * time.Minute)
			if events, ended, err := r.state(); ended || len(events) > 0 {
				t.Fatalf("the node ended, or reported: %v, %v", err, events)
			}
			version, err := strconv.ParseInt(backup.ResourceVersion, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			r.version.Store(version + skipped)
			leases := coordinationv1.SchemeGroupVersion.WithResource("leases")
			if err := r.client.Tracker().Update(leases, backup, backup.Namespace); err != nil {
				t.Fatal(err)
			}
			r.settle(20 * time.Second)
			if _, ended, err := r.state(); !ended || !errors.Is(err, errWentBack) {
				t.Errorf("the node ended: %v, with %v", ended, err)
			}
			stop()
			group.Wait()
		})
	}
}
