package e2e

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/controlplane"
)

const (
	// firstProbe is when an unwell pod's liveness fails, longer after its start than a
	// lease lasts.
	firstProbe = 15 * time.Second
	// probeLate bounds how late the restart may come: the probe's period, the backoff's
	// grain, and what a busy machine adds.
	probeLate = 20 * time.Second
)

// unwell makes a pod whose liveness probe will fail. What it returns waits for the restart,
// by the remote alone, and wants it in time.
func (o outageTest) unwell(t *testing.T, name string) func(*testing.T) {
	t.Helper()
	pod := scenario{name: name, policy: "Always", argv: forever}.pod(o.r.namespace, o.n.name)
	pod.Spec.Containers[0].LivenessProbe = &corev1.Probe{
		ProbeHandler:        corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"false"}}},
		InitialDelaySeconds: int32(firstProbe / time.Second), PeriodSeconds: 2, FailureThreshold: 1,
	}
	pod, err := o.c.client.CoreV1().Pods(o.r.namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	started := func(attempt int) (at time.Time, err error) {
		for _, f := range o.view.pods(t) {
			for _, c := range f.Containers {
				if f.UID == pod.UID && c.Attempt == attempt && !c.StartedAt.IsZero() {
					return c.StartedAt, nil
				}
			}
		}
		return at, fmt.Errorf("attempt %d of its container has not started", attempt)
	}
	var first time.Time
	wait.For(t, afterwards(), "pod "+name+" starts", func() (err error) { first, err = started(0); return err })
	return func(t *testing.T) {
		t.Helper()
		var second time.Time
		wait.For(t, afterwards(), "the container of pod "+name+" is restarted", func() (err error) {
			second, err = started(1)
			return err
		})
		if after, most := second.Sub(first), firstProbe+probeLate; after < firstProbe || after > most {
			t.Errorf("the container of pod %s was restarted %s after its start, want %s to %s", name, after, firstProbe, most)
		}
	}
}

// sameTerm is to be called after an outage: the process leads since before it.
func (o outageTest) sameTerm(t *testing.T) func() {
	terms := o.n.terms()
	return func() {
		t.Helper()
		if now := o.n.terms(); now != terms {
			t.Errorf("%d terms began, want none", now-terms)
		}
	}
}

// frozen has an API server that takes connections and answers nothing.
func (o outageTest) frozen(t *testing.T) {
	restarted, same := o.unwell(t, "unwell-frozen"), o.sameTerm(t)
	o.r.roll(t, 150)
	pid := o.c.PIDs()["kube-apiserver"]
	if pid == 0 {
		t.Fatal("no API server runs")
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	thaw := func() { _ = syscall.Kill(pid, syscall.SIGCONT) }
	t.Cleanup(thaw)
	begin := time.Now()
	restarted(t)
	time.Sleep(*outage/2 - time.Since(begin))
	thaw()
	o.well(t)
	same()
}

// restarting has an API server that never stays for longer than a lease or two.
func (o outageTest) restarting(t *testing.T) {
	lane.From(t, lane.All)
	const every = 20 * time.Second
	same := o.sameTerm(t)
	for begin, i := time.Now(), 0; time.Since(begin) < 5*time.Minute; i++ {
		restarted := o.unwell(t, fmt.Sprint("unwell-restarting-", i))
		o.r.roll(t, 160+i)
		o.without(t, every, func() { restarted(t) })
		time.Sleep(every / 2)
	}
	o.well(t)
	same()
}

// TestEtcdLeaderChanges: etcd has three members, and the one that leads is killed in the
// middle of a rollout, again and again. While it is missing, and when it is back, pods go on
// and statuses are right; the process leads on by the lease that it has, and nothing runs
// twice or is left.
func TestEtcdLeaderChanges(t *testing.T) {
	lane.From(t, lane.All)
	turn(t, waiter, 150*time.Second)
	o := newOutageTest(t, "etcd-leader", clusterWith(t, controlplane.Config{EtcdMembers: 3}))
	same := o.sameTerm(t)
	for i := range 3 {
		restarted := o.unwell(t, fmt.Sprint("unwell-etcd-", i))
		o.r.roll(t, 400+i)
		wait.For(t, patience, "the rollout is on its way", func() error { return o.r.onItsWay(t) })
		killed, err := o.c.KillEtcdLeader(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		o.anotherLeads(t, killed)
		restarted(t)
		o.well(t)
		if err := o.c.StartEtcdMember(t.Context(), killed); err != nil {
			t.Fatal(err)
		}
		o.well(t)
	}
	same()
	o.watch.end(t)
}

// anotherLeads waits until another member leads etcd than the one that was killed just now.
func (o outageTest) anotherLeads(t *testing.T, killed string) {
	t.Helper()
	begin, now := time.Now(), ""
	wait.For(t, patience, "another member of etcd leads than "+killed, func() (err error) {
		now, err = o.c.EtcdLeader(t.Context())
		return err
	})
	if now == killed {
		t.Fatalf("%s was killed and leads", now)
	}
	t.Logf("%s leads etcd after %s, %s did before", now, time.Since(begin).Round(100*time.Millisecond), killed)
}

// TestTakeoverUnseen: the leader is cut off from the API server while the one that stands
// by sleeps: pods go on. Then that one takes the node, and the first, which cannot see it,
// is refused. Nothing runs twice or is left.
func TestTakeoverUnseen(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, waiter, 70*time.Second)
	o := newOutageTest(t, "unseen", ownCluster(t))
	direct := *o.c
	direct.via = ""
	second := newNode(t, &direct, o.n.name, o.section)
	second.configure(o.election(direct.electorConfig(t)))
	second.start()
	wait.For(t, patience, "the second process stands by", func() error {
		return second.logged("standing by for the node's lease")
	})
	second.freeze()
	restarted := o.unwell(t, "unwell-cut-off")
	o.way.Cut()
	restarted(t)
	if err := o.n.logged("the node's lease cannot be renewed"); err != nil {
		t.Errorf("the first process holds its lease: %v", err)
	}
	second.wake()
	wait.For(t, takeover, "the first process gives the node up", func() error {
		return o.n.logged("another process leads the node")
	})
	o.r.roll(t, 300)
	o.well(t)
	o.way.Restore()
	restarted = o.unwell(t, "unwell-in-the-end")
	restarted(t)
	o.well(t)
	if err := second.logged("lost the node's lease"); err == nil {
		t.Error("the second process lost the node")
	}
	o.watch.end(t)
}

// logged is nil if the process has said so.
func (n *node) logged(words string) error {
	if log := n.log.String(); !strings.Contains(log, words) {
		return fmt.Errorf("its log does not say %q; it ends with %s", words, tail(log, 500))
	}
	return nil
}

// watchDoubled looks all the time for pods that run twice.
func watchDoubled(t *testing.T, view *simView) *haWatch {
	ctx, stop := context.WithCancel(context.Background())
	w := &haWatch{stop: stop, doubled: map[types.UID]string{}}
	t.Cleanup(func() {
		stop()
		w.wg.Wait()
	})
	w.wg.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				w.look(ctx, view)
			}
		}
	})
	return w
}
