package e2e

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// TestEtcdIsRestored: etcd's data are put back to what they were before, as from a backup,
// below a node on a host over SSH and one on a simulated remote, which stands in an election.
// burstlet is ended before that on the one, as docs/operations.md says, and runs on on the
// other, which sees it, and begins another term or is started again. The nodes are on their
// remotes who they were. Pods that the backup has keep their containers; those that came
// later end; those that were deleted since start again, or fail, as their restart policy
// says. Nothing runs twice or is left.
func TestEtcdIsRestored(t *testing.T) {
	lane.From(t, lane.All)
	turn(t, waiter, 150*time.Second)
	c := ownCluster(t)
	host := newSSHNode(t, c, "restored-host")
	p := newSimProcess(t)
	view := p.as(c, "restored-sim")
	sim := newNode(t, c, "restored-sim", p.section())
	sim.configure(
		fmt.Sprintf("leaderElection: {enabled: true, namespace: %s, kubeconfig: %s}\n", electors, c.elections(t)),
	)
	sim.run()
	watch := watchDoubled(t, view)
	rows := []*restored{newRestored(t, host.node), newRestored(t, sim)}
	onSim := view.startedAt(t)

	backup := filepath.Join(t.TempDir(), "etcd")
	if err := c.Backup(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	backedUp := time.Now()
	for _, r := range rows {
		r.changes(t)
	}
	sim.renews(t, backedUp) // or it would not see that this was never
	terms := sim.terms()
	host.stop()
	if err := c.Restore(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	sim.sees(t, terms)
	host.run()
	for _, r := range rows {
		r.isBack(t)
	}
	host.wellKept(t)
	for _, sandbox := range host.h.sandboxes(t, "") {
		if is := sandbox.Labels["burstlet.dev/node"]; is != host.identity() {
			t.Errorf("sandbox %s is of %s, want %s", sandbox.Id, is, host.identity())
		}
	}
	rows[1].onlyItsPods(t, view)
	now := view.startedAt(t)
	if now[rows[1].fresh].IsZero() {
		t.Error("the sim does not have the new pod as the same node's")
	}
	for _, uid := range rows[1].keptUIDs(t) {
		if was := onSim[uid]; was.IsZero() || !now[uid].Equal(was) {
			t.Errorf("the container of pod %s started at %s, and at %s before", uid, now[uid], was)
		}
	}
	watch.end(t)
	for _, r := range rows {
		r.n.deletePods(t)
	}
	host.h.empty(t)
	wait.For(t, patience, "nothing is left on the sim", func() error { return none(view.left(t, "")) })
}

// renews waits until the node's lease was renewed after a time.
func (n *node) renews(t *testing.T, after time.Time) {
	t.Helper()
	leases := n.c.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	wait.For(t, patience, "the lease of node "+n.name+" is renewed", func() error {
		lease, err := leases.Get(t.Context(), n.name, metav1.GetOptions{})
		if err == nil && !lease.Spec.RenewTime.After(after) {
			err = fmt.Errorf("it was renewed at %s", lease.Spec.RenewTime)
		}
		return err
	})
}

// sees waits until the process has seen that the API server went back. It then has another
// term than those before, or has ended: then it is started again, as a Deployment does.
func (n *node) sees(t *testing.T, terms int) {
	t.Helper()
	begin, ended := time.Now(), false
	wait.For(t, patience, "the process of node "+n.name+" sees that the API server went back", func() error {
		select {
		case <-n.ran.Done():
			ended = true
			return nil
		default:
		}
		if n.terms() == terms {
			return errors.New("it goes on")
		}
		return nil
	})
	t.Logf("it saw it after %s; it ended: %v", time.Since(begin).Round(100*time.Millisecond), ended)
	if err := n.logged("the API server went back to an earlier state"); err != nil {
		t.Error(err)
	}
	if ended {
		n.ran = nil
		n.start()
	}
}

// restored is a node below which etcd is restored.
type restored struct {
	n        *node
	identity string
	kept     *keptPods
	// deleted are pods that the backup has, and that are deleted after it, by restart policy.
	deleted map[corev1.RestartPolicy]*life
	// fresh is a pod that is made after the restore.
	fresh types.UID
}

// newRestored makes the pods that the backup is to have.
func newRestored(t *testing.T, n *node) *restored {
	t.Helper()
	r := &restored{
		n: n, identity: n.identity(), kept: n.steady(t, n.name+"-kept", true), deleted: map[corev1.RestartPolicy]*life{},
	}
	for policy, namespace := range map[corev1.RestartPolicy]string{
		corev1.RestartPolicyAlways: n.name + "-always", corev1.RestartPolicyNever: n.name + "-never",
	} {
		l := r.life(t, namespace)
		l.create(l.pod(forever, tolerant, func(pod *corev1.Pod) { pod.Spec.RestartPolicy = policy }))
		l.until("Ready", isReady)
		r.deleted[policy] = l
	}
	return r
}

func (r *restored) life(t *testing.T, namespace string) *life {
	t.Helper()
	return &life{T: t, c: r.n.c, n: r.n, remote: remote{mounts: true}, namespace: r.n.c.namespace(t, namespace)}
}

// changes does what the backup does not know of.
func (r *restored) changes(t *testing.T) {
	t.Helper()
	r.n.steady(t, r.n.name+"-later", true)
	for _, l := range r.deleted {
		l.must(l.pods().Delete(t.Context(), "subject", metav1.DeleteOptions{}))
		l.untilGone("subject")
	}
}

// isBack waits until all of the backup's pods are what they are to be.
func (r *restored) isBack(t *testing.T) {
	t.Helper()
	if now := r.n.identity(); now != r.identity || r.identity == "" {
		t.Errorf("the identity was %q and is %q", r.identity, now)
	}
	for policy, l := range r.deleted {
		l.until("after the restore", func(pod *corev1.Pod) error { return endedUnseen(pod, policy) })
	}
	fresh := r.life(t, r.n.name+"-fresh")
	fresh.create(fresh.pod(forever))
	r.fresh = fresh.until("a new pod is taken", isReady).UID
	r.kept.again(t)
}

// keptUIDs are those of the pods that keep their containers.
func (r *restored) keptUIDs(t *testing.T) []types.UID {
	t.Helper()
	list, err := r.kept.pods().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var uids []types.UID
	for i := range list.Items {
		uids = append(uids, list.Items[i].UID)
	}
	return uids
}

// onlyItsPods waits until a simulated remote has what the API has of the node, once, and no
// pod or volume more.
func (r *restored) onlyItsPods(t *testing.T, view *simView) {
	t.Helper()
	wait.For(t, patience, "the sim has what the API has, and nothing else", func() error {
		wanted, err := rollout{n: r.n, c: r.n.c}.others(t.Context())
		if err != nil {
			return err
		}
		attempts, _ := view.count(t)
		have := maps.Clone(attempts)
		for _, volume := range view.volumes(t) {
			have[volume.Pod.UID] += 0
		}
		for uid := range have {
			if !wanted[uid] || attempts[uid] > 1 {
				return fmt.Errorf("%d attempts of pod %s, which the API has: %v", attempts[uid], uid, wanted[uid])
			}
		}
		return nil
	})
}

// startedAt is when the container of each pod started.
func (v *simView) startedAt(t *testing.T) map[types.UID]time.Time {
	t.Helper()
	at := map[types.UID]time.Time{}
	for _, pod := range v.pods(t) {
		for _, c := range pod.Containers {
			at[pod.UID] = c.StartedAt
		}
	}
	return at
}
