package e2e

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/link"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/controlplane"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

var outage = flag.Duration("outage", time.Minute, "for how long TestOutage stops the API server; make chaos says 10m")

// afterwards bounds how long statuses may be wrong after an outage: 30 s, and what a busy
// machine adds. On no machine is it as long as a call that hangs lasts, which is two minutes.
func afterwards() time.Duration { return min(stretched(90*time.Second), 110*time.Second) }

// ownCluster is a control plane that only one test uses, and may stop.
func ownCluster(t *testing.T) *cluster {
	t.Helper()
	return clusterWith(t, controlplane.Config{})
}

// clusterWith is ownCluster with more than the defaults.
func clusterWith(t *testing.T, cfg controlplane.Config) *cluster {
	t.Helper()
	cp := cptest.New(t, cfg)
	return &cluster{ControlPlane: cp, client: cptest.Client(t, cp.AdminConfig())}
}

// TestOutage: while the API server is away, pods go on: they end, are restarted, also
// for their liveness probes, and the process may die. Then the API soon says what truly
// is, and nothing runs twice or is left. The same when the API server is frozen, or starts
// again and again, and when a watch has a gap in which pods were deleted, by force too, and
// made anew under their names. The leader is elected with the chart's settings.
func TestOutage(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, waiter, 275*time.Second)
	o := newOutageTest(t, "outage", ownCluster(t))
	t.Run("the API server is away", o.away)
	t.Run("it is frozen", o.frozen)
	t.Run("it starts again and again", o.restarting)
	t.Run("it is away, and burstlet dies", o.awayAndKilled)
	t.Run("a gap in the watch", o.gap)
	o.watch.end(t)
}

// newOutageTest runs a rollout on a node that reaches the API server of the test's own
// cluster over a link of its own, and looks for pods that run twice.
func newOutageTest(t *testing.T, name string, c *cluster) outageTest {
	t.Helper()
	way := link.ForTest(t, link.To(strings.TrimPrefix(c.URL(), "https://")))
	c.via = "https://" + way.Address()
	p := newSimProcess(t)
	o := outageTest{c: c, n: newNode(t, c, name, p.section()), view: p.as(c, name), way: way, section: p.section()}
	o.n.configure(o.election(c.elections(t)))
	o.n.run()
	o.watch = watchDoubled(t, o.view)
	o.r = rollout{c: c, n: o.n, namespace: c.namespace(t, name), replicas: 30, token: true}
	o.r.killed(t, 1)
	return o
}

type outageTest struct {
	c    *cluster
	n    *node
	view *simView
	way  *link.Link // to the API server
	r    rollout
	// section is the configuration of the backend.
	section string
	watch   *haWatch
}

// election is the configuration of a process that stands in the node's election.
func (o outageTest) election(kubeconfig string) string {
	return fmt.Sprintf("leaderElection: {enabled: true, namespace: %s, kubeconfig: %s}\n", electors, kubeconfig)
}

func (o outageTest) create(t *testing.T, name string, argv ...string) *corev1.Pod {
	t.Helper()
	s := scenario{name: name, policy: "Never", argv: argv}
	pod, err := o.c.client.CoreV1().Pods(o.r.namespace).Create(
		t.Context(), s.pod(o.r.namespace, o.n.name), metav1.CreateOptions{},
	)
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// until waits until a pod is in one of the phases, and returns how long that took.
func (o outageTest) until(t *testing.T, name string, phases ...corev1.PodPhase) time.Duration {
	t.Helper()
	begin := time.Now()
	wait.For(t, afterwards(), fmt.Sprintf("pod %s is one of %s", name, phases), func() error {
		pod, err := o.c.client.CoreV1().Pods(o.r.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !slices.Contains(phases, pod.Status.Phase) {
			return fmt.Errorf("it is %s", pod.Status.Phase)
		}
		return nil
	})
	return time.Since(begin)
}

// without stops the API server for so long, and while f runs.
func (o outageTest) without(t *testing.T, length time.Duration, f func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), length+5*time.Minute)
	defer cancel()
	if err := o.c.StopAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	f()
	select {
	case <-ctx.Done():
	case <-time.After(length - time.Since(begin)):
	}
	if err := o.c.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
}

func (o outageTest) away(t *testing.T) {
	o.create(t, "ends", "sleep", "8")
	o.create(t, "fails", "sh", "-c", "sleep 12; exit 3")
	// A machine that is slow sees only that they ran.
	o.until(t, "ends", corev1.PodRunning, corev1.PodSucceeded)
	o.until(t, "fails", corev1.PodRunning, corev1.PodFailed)
	restarted, same := o.unwell(t, "unwell"), o.sameTerm(t)
	o.r.roll(t, 100)
	o.without(t, *outage, func() { restarted(t) })
	t.Logf(
		"ended pods are told of %s after",
		max(o.until(t, "ends", corev1.PodSucceeded), o.until(t, "fails", corev1.PodFailed)),
	)
	o.well(t)
	same()
}

func (o outageTest) awayAndKilled(t *testing.T) {
	o.create(t, "ends-unseen", "sleep", "8")
	o.until(t, "ends-unseen", corev1.PodRunning, corev1.PodSucceeded)
	o.r.roll(t, 200)
	o.without(t, *outage/6, o.n.kill)
	o.n.start()
	o.n.ready()
	o.until(t, "ends-unseen", corev1.PodSucceeded)
	o.well(t)
}

// gap cuts burstlet off, deletes pods behind its back, and starts the API server
// again, whose watches then cannot be resumed: no delete is ever told.
func (o outageTest) gap(t *testing.T) {
	ctx, pods := t.Context(), o.c.client.CoreV1().Pods(o.r.namespace)
	var names []string
	for i := range 6 {
		names = append(names, fmt.Sprint("gap-", i))
		o.create(t, names[i], forever...)
	}
	old := map[types.UID]bool{}
	for _, name := range names {
		o.until(t, name, corev1.PodRunning)
		pod, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		old[pod.UID] = true
	}
	o.way.Break()
	grace := int64(0)
	for _, name := range names {
		if err := pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names[:3] {
		o.create(t, name, forever...)
	}
	if err := o.c.StopAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	if err := o.c.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	o.way.Restore()
	for _, name := range names[:3] {
		o.until(t, name, corev1.PodRunning)
	}
	wait.For(t, afterwards(), "what was deleted is gone from the remote", func() error {
		for _, f := range o.view.pods(t) {
			if old[f.UID] {
				return fmt.Errorf("pod %s %s", f.Name, f.UID)
			}
		}
		return nil
	})
	o.well(t)
}

// well waits until the rollout is complete and the remote has what the API has.
func (o outageTest) well(t *testing.T) {
	t.Helper()
	begin := time.Now()
	o.r.complete(t, patience)
	wait.For(t, afterwards(), "the remote has what the API has, once", func() error {
		return o.r.sameAsAPI(t, o.view.count, neverRestarted)
	})
	uids := map[types.UID]bool{}
	list, err := o.c.client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range list.Items {
		uids[pod.UID] = true
	}
	if left := slices.DeleteFunc(o.view.pods(t), func(f backend.PodFacts) bool { return uids[f.UID] }); len(left) > 0 {
		t.Errorf("orphans on the remote: %v", left)
	}
	t.Logf("all is well %s after", time.Since(begin).Round(100*time.Millisecond))
}
