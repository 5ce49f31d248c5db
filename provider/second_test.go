package provider

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/retry"
)

// versioned makes a fake API server refuse an update of a lease that is not the newest. It
// returns the last version.
func versioned(client *fake.Clientset) *atomic.Int64 {
	var version atomic.Int64
	client.PrependReactor("*", "leases", func(a clienttesting.Action) (bool, runtime.Object, error) {
		var lease *coordinationv1.Lease
		switch a := a.(type) {
		case clienttesting.UpdateAction: // a creation's looks alike
			lease = a.GetObject().(*coordinationv1.Lease)
		default:
			return false, nil, nil
		}
		was, err := client.Tracker().Get(a.GetResource(), a.GetNamespace(), lease.Name)
		if err == nil && a.GetVerb() == "update" && was.(*coordinationv1.Lease).ResourceVersion != lease.ResourceVersion {
			return true, nil, apierrors.NewConflict(a.GetResource().GroupResource(), lease.Name, errors.New("not the newest"))
		}
		lease.ResourceVersion = strconv.FormatInt(version.Add(1), 10)
		return false, nil, nil
	})
	return &version
}

// rival is one of the processes that have node n1 at the same time.
type rival struct {
	*bench
	mu     sync.Mutex
	events []string
	err    error
	ended  bool
	// version is that of the newest lease; nil where the API is another's.
	version *atomic.Int64
}

// newRival makes a process of its own over the API of another, whose client is nil for the
// first.
func newRival(t *testing.T, client *fake.Clientset, holder Holder, yields bool) *rival {
	t.Helper()
	r := &rival{}
	r.bench = newBench(t, func(cfg *Config) {
		if client == nil {
			client = cfg.Client.(*fake.Clientset)
			r.version = versioned(client)
		}
		pods, err := NewPodInformer(client, "n1")
		if err != nil {
			t.Fatal(err)
		}
		cfg.Client, cfg.Pods, cfg.Holder, cfg.YieldToOther = client, pods, holder, yields
		cfg.Event = func(_ *corev1.ObjectReference, kind, reason, message string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if reason == reasonOtherProcess {
				r.events = append(r.events, kind+" "+message)
			}
		}
	})
	r.client = client
	return r
}

func (r *rival) start(ctx context.Context, group *sync.WaitGroup) {
	group.Go(func() {
		err := r.node.Run(ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.err, r.ended = err, true
	})
}

func (r *rival) state() (events []string, ended bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.events...), r.ended, r.err
}

// heldBy checks who has the Node, as it says.
func (r *rival) heldBy(process string) {
	r.t.Helper()
	if h := holderOf(r.inAPI().Annotations); h == nil || h.Process != process {
		r.t.Errorf("the node is held by %v", h)
	}
}

func (r *rival) foreign() float64 { return testutil.ToFloat64(r.node.metrics.foreign) }

// A restart, and a process that follows another in its election, are nobody's rivals.
func TestOneProcessAfterAnotherIsNotASecondOne(t *testing.T) {
	for _, election := range []string{"", "burstlet/burstlet-n1"} {
		synctest.Test(t, func(t *testing.T) {
			first := newRival(t, nil, Holder{Process: "a", Election: election}, true)
			first.run(func() { first.settle(15 * time.Second) })
			if h := holderOf(first.lease().Annotations); h == nil || h.Process != "a" || h.Election != election {
				t.Errorf("the lease is held by %v", h)
			}
			first.heldBy("a")
			second := newRival(t, first.client, Holder{Process: "b", Election: election}, true)
			second.run(func() {
				began := time.Now()
				<-second.synced
				if took := time.Since(began); election != "" && took > 2*time.Second || took > otherRenews+2*time.Second {
					t.Errorf("election %q: started after %v", election, took)
				}
				second.settle(2 * time.Minute)
				second.heldBy("b")
			})
			for _, r := range []*rival{first, second} {
				if events, _, err := r.state(); len(events) > 0 || err != nil || r.foreign() > 0 {
					t.Errorf("%v, %v, %v foreign renewals", events, err, r.foreign())
				}
			}
		})
	}
}

// Two releases with one node name: both say so, each of the other.
func TestTwoProcessesReportEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newRival(t, nil, Holder{Process: "a", Election: "one/burstlet-n1"}, false)
		second := newRival(t, first.client, Holder{Process: "b", Election: "two/burstlet-n1"}, false)
		ctx, stop := context.WithCancel(t.Context())
		var group sync.WaitGroup
		first.start(ctx, &group)
		first.settle(25 * time.Second)
		second.start(ctx, &group)
		first.settle(40 * time.Second)
		pushes := len(writes(first.client, "nodes"))
		first.settle(2 * time.Minute)
		for r, want := range map[*rival]string{
			first: "process b by lease two/burstlet-n1", second: "process a by lease one/burstlet-n1",
		} {
			events, ended, err := r.state()
			if len(events) != 1 || !strings.HasPrefix(events[0], "Warning Node n1 has two processes") ||
				!strings.Contains(events[0], "renewed by "+want) {
				t.Errorf("Events %q, want one that names %s", events, want)
			}
			if ended || r.foreign() < 10 {
				t.Errorf("ended %v with %v; %v foreign renewals", ended, err, r.foreign())
			}
		}
		if n := len(writes(first.client, "nodes")) - pushes; n > 0 {
			t.Errorf("they wrote the Node in turn, %d times", n)
		}
		first.settle(saidAgain)
		if events, _, _ := first.state(); len(events) != 2 {
			t.Errorf("%d Events after %v", len(events), saidAgain)
		}
		stop()
		group.Wait()
	})
}

// caseOfTwo is one of docs/operations.md, "Two processes for one node".
type caseOfTwo struct {
	name  string
	first Holder
	// begin makes the second process, or does its work where that is no burstlet.
	begin func(ctx context.Context, first *rival, stop bool) *rival
	// other is what the first says of it; empty: nothing. Foreign renewals are from fewest to most.
	other        string
	fewest, most float64
	// ends is which of them ends where node.onOtherProcess is stop.
	ends string
}

func casesOfTwo() []caseOfTwo {
	const election, many = "ns/burstlet-n1", 100
	us, alone := Holder{Process: "a", Election: election}, Holder{Process: "a"}
	beside := func(other Holder) func(context.Context, *rival, bool) *rival {
		return func(_ context.Context, first *rival, stop bool) *rival {
			return newRival(first.t, first.client, other, stop && other.Process != "")
		}
	}
	by := func(lease string) Holder { return Holder{Process: "b", Election: lease} }
	const unknown = "a process that does not say who it is"
	return []caseOfTwo{
		{"another lease for the same nodes", us, beside(by("ns/nodes")), "process b by lease ns/nodes", 2, many, "second"},
		{"with an election, and without", us, beside(by("")), "process b without leader election", 2, many, "second"},
		{"without an election, and with", alone, beside(by(election)), "process b by lease " + election, 2, many, "second"},
		{"both without an election", alone, beside(by("")), "process b without leader election", 2, many, "second"},
		{"two releases", us, beside(by("other/burstlet-n1")), "process b by lease other/burstlet-n1", 2, many, "second"},
		{
			"a release that was moved",
			Holder{Process: "a", Election: "old/burstlet-n1"},
			beside(by("new/burstlet-n1")),
			"process b by lease new/burstlet-n1", 2, many, "second",
		},
		{"an older burstlet", us, beside(Holder{}), unknown, 2, many, "first"},
		{"a kubelet", us, kubeletRenews, unknown, 2, many, "first"},
		{"a former leader that wakes", us, oneRenewal(us), "", 1, 1, ""},
		{"the node's lease is deleted", us, leaseGoes, "", 0, 0, ""},
	}
}

// Each case says what it is to say, counts the renewals and, where it is to stop, ends one of the two.
func TestEveryCaseOfTwoProcesses(t *testing.T) {
	for _, tt := range casesOfTwo() {
		for _, stop := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stop %v", tt.name, stop), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					first := newRival(t, nil, tt.first, stop)
					ctx, cancel := context.WithCancel(t.Context())
					var group sync.WaitGroup
					first.start(ctx, &group)
					first.settle(25 * time.Second)
					second := tt.begin(ctx, first, stop)
					if second != nil {
						second.start(ctx, &group)
					}
					first.settle(2 * time.Minute)
					tt.judge(first, second, stop)
					cancel()
					group.Wait()
				})
			})
		}
	}
}

func (c caseOfTwo) judge(first, second *rival, stop bool) {
	first.t.Helper()
	first.endedForOther(stop && c.ends == "first")
	if second != nil {
		second.endedForOther(stop && c.ends == "second")
	}
	switch us := c.first.String(); {
	case stop && c.ends == "second": // which has seen the first at its start, and written nothing
		first.says("", 0, 0)
		second.says(us, 0, 0)
		return
	case second != nil && second.node.cfg.Holder.Process != "": // an older one would not say it
		second.says(us, c.fewest, c.most)
	}
	first.says(c.other, c.fewest, c.most)
}

// endedForOther checks whether the process has left the node to another.
func (r *rival) endedForOther(want bool) {
	r.t.Helper()
	_, ended, err := r.state()
	if ended != want || want != errors.Is(err, errHeld) || want && !strings.Contains(err.Error(), "node.onOtherProcess") {
		r.t.Errorf("process %q: ended %v, want %v: %v", r.node.cfg.Holder.Process, ended, want, err)
	}
}

// says checks the one Event about another process, or that there is none, and how many renewals were counted.
func (r *rival) says(other string, fewest, most float64) {
	r.t.Helper()
	events, _, _ := r.state()
	if other == "" && len(events) > 0 || other != "" && (len(events) != 1 ||
		!strings.HasPrefix(events[0], "Warning Node n1 has two processes") ||
		!strings.Contains(events[0], "renewed by "+other)) {
		r.t.Errorf("process %q: Events %q, want one about %q", r.node.cfg.Holder.Process, events, other)
	}
	if n := r.foreign(); n < fewest || n > most {
		r.t.Errorf("process %q: %v foreign renewals, want %v to %v", r.node.cfg.Holder.Process, n, fewest, most)
	}
}

// renewBeside renews the node's lease as somebody else does, who says it of holder or, where that is nil,
// leaves the annotations alone.
func (r *rival) renewBeside(ctx context.Context, holder *Holder) {
	leases := r.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		lease, err := leases.Get(ctx, "n1", metav1.GetOptions{})
		if err != nil {
			return err
		}
		now := metav1.NowMicro()
		lease.Spec.RenewTime = &now
		if holder != nil {
			w, err := newWatcher(*holder, nil, nil)
			if err != nil {
				return err
			}
			lease = w.sign(lease)
		}
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		r.t.Error(err)
	}
}

// oneRenewal is the last one of a process that led before us by the same election.
func oneRenewal(us Holder) func(context.Context, *rival, bool) *rival {
	us.Process = "frozen"
	return func(ctx context.Context, first *rival, _ bool) *rival {
		first.renewBeside(ctx, &us)
		return nil
	}
}

// kubeletRenews renews the lease as a kubelet does, every ten seconds.
func kubeletRenews(ctx context.Context, first *rival, _ bool) *rival {
	first.t.Helper()
	go func() {
		for range 11 {
			time.Sleep(10 * time.Second)
			first.renewBeside(ctx, nil)
		}
	}()
	return nil
}

func leaseGoes(ctx context.Context, first *rival, _ bool) *rival {
	first.t.Helper()
	err := first.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Delete(ctx, "n1", metav1.DeleteOptions{})
	if err != nil {
		first.t.Error(err)
	}
	return nil
}

// Two that have the node find each other: the younger one leaves, whichever sees the other
// first. It does not come back before the older one has ended.
func TestTheYoungerProcessYields(t *testing.T) {
	for offset := range 12 {
		synctest.Test(t, func(t *testing.T) {
			first := newRival(t, nil, Holder{Process: "b"}, true)
			ctx, stop := context.WithCancel(t.Context())
			var group sync.WaitGroup
			first.start(ctx, &group)
			first.settle(15*time.Second + time.Duration(offset)*time.Second)
			second := newRival(t, first.client, Holder{Process: "a", Election: "two/burstlet-n1"}, true)
			// Without the lease the second sees nobody at its start.
			if err := first.client.Tracker().Delete(
				coordinationv1.SchemeGroupVersion.WithResource("leases"), "kube-node-lease", "n1",
			); err != nil {
				t.Fatal(err)
			}
			second.start(ctx, &group)
			first.settle(time.Minute)
			if _, ended, err := first.state(); ended {
				t.Errorf("the older one ended: %v", err)
			}
			if _, ended, err := second.state(); !ended || !errors.Is(err, errHeld) ||
				!strings.Contains(fmt.Sprint(err), "node.onOtherProcess") {
				t.Errorf("the younger one: ended %v, %v", ended, err)
			}
			// As long as the older one lives, nothing is written at a start.
			again := newRival(t, first.client, Holder{Process: "c", Election: "two/burstlet-n1"}, true)
			written := len(writes(first.client, "nodes"))
			soon, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			if err := again.node.Run(soon); !errors.Is(err, errHeld) || len(writes(first.client, "nodes")) != written {
				t.Errorf("a start beside it: %v, %d writes", err, len(writes(first.client, "nodes"))-written)
			}
			if events, _, _ := again.state(); len(events) != 1 {
				t.Errorf("Events %q", events)
			}
			stop()
			group.Wait()
			last := newRival(t, first.client, Holder{Process: "d", Election: "two/burstlet-n1"}, true)
			last.run(func() { <-last.synced })
		})
	}
}

// One that stops for others ends although it is the older one, where the younger one does not: a process
// that had lost its lease for a while takes the node back, and finds that another has it.
func TestAProcessYieldsToOneThatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stays := newRival(t, nil, Holder{Process: "a", Election: "one/burstlet-n1"}, false)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var group sync.WaitGroup
		term, lose := context.WithCancel(ctx)
		stays.start(term, &group)
		stays.settle(25 * time.Second)
		lose()
		group.Wait()
		yields := newRival(t, stays.client, Holder{Process: "b", Election: "two/burstlet-n1"}, true)
		yields.start(ctx, &group)
		yields.settle(30 * time.Second)
		yields.heldBy("b")
		back := newRival(t, stays.client, Holder{Process: "a", Election: "one/burstlet-n1"}, false)
		back.start(ctx, &group)
		back.settle(time.Minute)
		yields.endedForOther(true)
		back.endedForOther(false)
		stop()
		group.Wait()
	})
}

// What another process does is not known before the lease could be read.
func TestAStartTriesUntilTheLeaseIsRead(t *testing.T) {
	const seen = "is renewed by process b"
	for failures, wantErr := range map[int]string{1: seen, 5: seen, 1000: "read the lease"} {
		synctest.Test(t, func(t *testing.T) {
			first := newRival(t, nil, Holder{Process: "b"}, true)
			ctx, stop := context.WithCancel(t.Context())
			var group sync.WaitGroup
			first.start(ctx, &group)
			first.settle(25 * time.Second)
			second := newRival(t, first.client, Holder{Process: "a", Election: "two/burstlet-n1"}, true)
			first.client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
				failures--
				return failures >= 0, nil, apierrors.NewServerTimeout(coordinationv1.Resource("leases"), "get", 1)
			})
			written := len(writes(first.client, "nodes"))
			began := time.Now()
			err := second.node.Run(ctx)
			if err == nil || !strings.Contains(err.Error(), wantErr) || len(writes(first.client, "nodes")) != written {
				t.Errorf("%v, %d writes; want %q", err, len(writes(first.client, "nodes"))-written, wantErr)
			}
			if took := time.Since(began); took > defaultStartTimeout+otherRenews {
				t.Errorf("ended after %v", took)
			}
			stop()
			group.Wait()
		})
	}
}

func TestForeignRenewals(t *testing.T) {
	lease := func(at time.Time, holder string) *coordinationv1.Lease {
		l := newLease("n1", at)
		if holder != "" {
			l.Annotations = map[string]string{HolderAnnotation: holder}
		}
		return l
	}
	synctest.Test(t, func(t *testing.T) {
		m, err := newMetrics(nil)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		w, err := newWatcher(
			Holder{Process: "us"}, m.foreign, func(_ context.Context, other *Holder) { found = append(found, other.String()) },
		)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		at := func(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }
		expect := func(what string, renewals float64, names ...string) {
			t.Helper()
			if got := testutil.ToFloat64(m.foreign); got != renewals || strings.Join(found, "|") != strings.Join(names, "|") {
				t.Errorf("%s: %v foreign renewals, found %q, want %v and %q", what, got, found, renewals, names)
			}
		}
		ctx := t.Context()
		w.saw(ctx, lease(at(-100), ""), "")
		w.saw(ctx, lease(at(-90), ""), "")
		expect("of a predecessor", 0)
		w.sign(lease(at(1), ""))
		w.sign(lease(at(2), "")) // its answer is lost
		w.saw(ctx, lease(at(1), ""), "")
		w.saw(ctx, lease(at(2), ""), "")
		expect("our own", 0)
		w.saw(ctx, lease(at(-50), `{"process":"before"}`), "")
		w.saw(ctx, lease(at(-50), `{"process":"before"}`), "")
		expect("one from a backup, read twice", 1)
		time.Sleep(foreignWindow)
		w.saw(ctx, lease(at(3), `{"process":"before"}`), "")
		expect("one long after", 2)
		w.saw(ctx, lease(at(13), `{"process":"them","election":"a/b"}`), "")
		const them = "process them by lease a/b"
		expect("two in a row", 3, them)
		w.sign(lease(at(13), "")) // its owner is corrected, it is not renewed
		w.saw(ctx, lease(at(13), ""), "")
		w.saw(ctx, lease(at(23), w.text), "") // an older burstlet keeps what it does not know
		expect("of who does not say it", 4, them, (*Holder)(nil).String())
	})
}

func TestWhoYields(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for _, tc := range []struct {
		name     string
		us, them *Holder
		want     bool
	}{
		{"to the older", &Holder{Process: "a", Since: at(2)}, &Holder{Process: "b", Since: at(1)}, true},
		{"not to the younger", &Holder{Process: "b", Since: at(1)}, &Holder{Process: "a", Since: at(2)}, false},
		{"of one age, one", &Holder{Process: "b", Since: at(1)}, &Holder{Process: "a", Since: at(1)}, true},
		{"and not both", &Holder{Process: "a", Since: at(1)}, &Holder{Process: "b", Since: at(1)}, false},
		{"to who does not say it", &Holder{Process: "a", Since: at(1)}, nil, true},
	} {
		if got := tc.us.yieldsTo(tc.them); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
	if holderOf(map[string]string{HolderAnnotation: "{"}) != nil ||
		holderOf(map[string]string{HolderAnnotation: "{}"}) != nil {
		t.Error("an annotation that says nothing names a holder")
	}
}
