package e2e

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

const (
	// leases last longer than by default: on a busy machine a renewal takes seconds.
	leases = "leaseDuration: 15s, renewDeadline: 12s"
	// takeover bounds how long a node is without a leader: 19.4 s after a crash
	// (configuration, leaseDuration), and what a busy machine adds. It is less than what
	// makes a node not Ready.
	takeover = 45 * time.Second
	// electors is the namespace of the leases that leaders fight for.
	electors = "burstlet-system"
	elector  = "burstlet-elector"
)

// frozen is how long the old leader sleeps: longer than the takeover may last.
var frozen = lane.Pick(60*time.Second, 60*time.Second, 90*time.Second)

// TestLeaderFrozen: of two processes with one node, the leader is frozen in the
// middle of a rollout, and wakes long after. The other has taken the node over soon
// after its lease ended; nothing is doubled or lost, and the node stays Ready. Then
// the new leader is killed, and the one after it ended as an operator does, after
// which the next need not wait for the end of the lease.
func TestLeaderFrozen(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, waiter, 120*time.Second)
	c := theCluster(t)
	kubeconfig := c.elections(t)
	p := newSimProcess(t)
	view := p.as(c, "ha")
	var pair [2]*node
	for i := range pair {
		pair[i] = newNode(t, c, "ha", p.section())
		pair[i].configure(
			fmt.Sprintf("leaderElection: {enabled: true, namespace: %s, kubeconfig: %s, %s}\n", electors, kubeconfig, leases),
		)
	}
	a, b := pair[0], pair[1]
	a.run()
	first, err := c.leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.start()

	watch := watchHA(t, c, view)
	r := rollout{c: c, n: a, namespace: c.namespace(t, "ha"), replicas: lane.Pick[int32](30, 30, 60), token: true}
	r.killed(t, 0)
	r.roll(t, 1)
	wait.For(t, patience, "the rollout is on its way", func() error { return r.onItsWay(t) })
	a.freeze()
	if r.isComplete(t) == nil {
		t.Fatal("the leader was frozen after the rollout, not in the middle of it")
	}
	woken := time.Now().Add(frozen)
	second := c.nextLeader(t, first)
	r.roll(t, 2)
	r.complete(t, patience)
	time.Sleep(time.Until(woken))
	r.roll(t, 3)
	a.wake()
	r.complete(t, patience)
	same := func() error { return r.sameAsAPI(t, view.count, neverRestarted) }
	wait.For(t, patience, "the remote has what the API has, once", same)
	if now, err := c.leader(t.Context()); err != nil || now != second {
		t.Errorf("%q leads, want %s still: %v", now, second, err)
	}

	r.roll(t, 4)
	b.kill()
	third := c.nextLeader(t, second)
	r.complete(t, patience)
	b.edit(leases, "leaseDuration: 10m") // so long it would wait for a lease that is not given up
	b.start()
	r.roll(t, 5)
	a.stop()
	c.nextLeader(t, third)
	r.complete(t, patience)
	wait.For(t, patience, "the remote has what the API has, once", same)
	watch.end(t)
}

// elections makes the namespace of the leases and a credential that may write
// them, and nothing else, and returns its kubeconfig file.
func (c *cluster) elections(t *testing.T) string {
	t.Helper()
	ctx := t.Context()
	c.namespace(t, electors)
	meta := metav1.ObjectMeta{Namespace: electors, Name: elector}
	if _, err := c.client.RbacV1().Roles(electors).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"},
		Verbs: []string{"get", "create", "update"},
	}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.client.RbacV1().RoleBindings(electors).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: elector},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: elector}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return c.electorConfig(t)
}

// electorConfig is the kubeconfig file of that credential.
func (c *cluster) electorConfig(t *testing.T) string {
	t.Helper()
	cred, err := c.Credential(elector)
	if err != nil {
		t.Fatal(err)
	}
	if c.via != "" {
		cred.Host = c.via
	}
	return cptest.Kubeconfig(t, cred)
}

// leader is who holds the node's election lease; "" for nobody.
func (c *cluster) leader(ctx context.Context) (string, error) {
	lease, err := c.client.CoordinationV1().Leases(electors).Get(ctx, "burstlet-ha", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return "", err
	}
	return *lease.Spec.HolderIdentity, nil
}

// nextLeader waits until another than the old one leads.
func (c *cluster) nextLeader(t *testing.T, old string) string {
	t.Helper()
	begin, now := time.Now(), ""
	wait.For(t, patience, "another leader than "+old, func() (err error) {
		if now, err = c.leader(t.Context()); err != nil || now == "" || now == old {
			return fmt.Errorf("%q leads: %w", now, err)
		}
		return nil
	})
	took := time.Since(begin).Round(100 * time.Millisecond)
	t.Logf("%s leads after %s", now, took)
	if took > takeover {
		t.Errorf("nobody led for longer than %s", takeover)
	}
	return now
}

// configure adds to the node's configuration.
func (n *node) configure(yaml string) {
	n.t.Helper()
	f, err := os.OpenFile(n.config, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		n.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(yaml); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) freeze() { n.signal(syscall.SIGSTOP) }

func (n *node) wake() { n.signal(syscall.SIGCONT) }

func (n *node) signal(s syscall.Signal) {
	n.t.Helper()
	if err := n.ran.Signal(s); err != nil {
		n.t.Fatal(err)
	}
}

// haWatch looks all the time for what must never be.
type haWatch struct {
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	doubled map[types.UID]string
	// unready is the longest time without a Ready node.
	unready time.Duration
}

func watchHA(t *testing.T, c *cluster, view *simView) *haWatch {
	ctx, stop := context.WithCancel(context.Background())
	w := &haWatch{stop: stop, doubled: map[types.UID]string{}}
	t.Cleanup(func() {
		stop()
		w.wg.Wait()
	})
	w.wg.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		wasReady := time.Now()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			w.look(ctx, view)
			node, err := c.client.CoreV1().Nodes().Get(ctx, "ha", metav1.GetOptions{})
			if err == nil && wait.NodeReady(node) == nil {
				wasReady = time.Now()
			}
			w.mu.Lock()
			w.unready = max(w.unready, time.Since(wasReady))
			w.mu.Unlock()
		}
	})
	return w
}

// look finds pods that run twice.
func (w *haWatch) look(ctx context.Context, view *simView) {
	facts, err := view.Pods.List(ctx)
	if err != nil {
		return // the next look comes soon
	}
	live, running := map[types.UID]int{}, map[types.UID]int{}
	for _, f := range facts {
		if f.Live {
			live[f.UID]++
		}
		for _, c := range f.Containers {
			if !c.StartedAt.IsZero() && c.FinishedAt.IsZero() {
				running[f.UID]++
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, n := range live {
		if n > 1 || running[uid] > 1 {
			w.doubled[uid] = fmt.Sprintf("%d live attempts, %d running containers", n, running[uid])
		}
	}
}

func (w *haWatch) end(t *testing.T) {
	t.Helper()
	w.stop()
	w.wg.Wait()
	for uid, what := range w.doubled {
		t.Errorf("pod %s had %s", uid, what)
	}
	t.Logf("the node was not Ready for at most %s", w.unready.Round(100*time.Millisecond))
	if w.unready > takeover {
		t.Errorf("the node was not Ready for %s", w.unready)
	}
}
