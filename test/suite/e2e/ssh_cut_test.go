package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
)

var sshCut = flag.Duration(
	"sshcut", 0, "for how long TestSSHCutLong cuts a node off its host, twice; make chaos says 10m",
)

// unheard is how long nothing is heard over a dead connection before it is given
// up (keepalives).
const unheard = 20 * time.Second

// TestSSHCut cuts a node off its host for 5 and for 80 s, in the middle of a
// rollout, an exec and deletes. The pods do not notice. Then the API says what is
// so soon; nothing is doubled or left. The node is NotReady after 40 s, and
// keeps its lease.
func TestSSHCut(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, waiter, 190*time.Second)
	c := theCluster(t)
	s := newSSHNode(t, c, "ssh-cut")
	r := rollout{c: c, n: s.node, namespace: c.namespace(t, "ssh-cut"), replicas: 10, token: true}
	r.killed(t, 0)
	kept := s.keep(t, "ssh-cut-kept")
	for i, length := range []time.Duration{5 * time.Second, 80 * time.Second} {
		t.Run(length.String(), func(t *testing.T) {
			s.cut(t, r, 10*i, length, func() {})
			r.complete(t, patience)
			s.wellKept(t)
			kept.same(t)
		})
	}
}

// TestSSHCutLong does so twice for ten minutes: longer than pods stay by default on
// a node that is not Ready. Kubernetes replaces those on another node; those that
// tolerate it are kept.
func TestSSHCutLong(t *testing.T) {
	if *sshCut == 0 {
		t.Skip("it takes long: run make chaos, or give -sshcut 10m")
	}
	turn(t, waiter, 1500*time.Second)
	c := ownCluster(t)
	s, spare := newSSHNode(t, c, "ssh-long"), newSSHNode(t, c, "ssh-spare")
	r := rollout{c: c, n: s.node, namespace: c.namespace(t, "ssh-long"), replicas: 10, token: true}
	r.killed(t, 0)
	kept := s.keep(t, "ssh-long-kept")
	spread := rollout{c: c, n: s.node, namespace: c.namespace(t, "ssh-long-spread"), replicas: 5, token: true}
	spread.prefers(t, s.name, spare.name)
	for i := range 2 {
		t.Run(fmt.Sprint("time ", i+1), func(t *testing.T) {
			spread.roll(t, i)
			spread.complete(t, patience)
			spread.allOn(t, s.name)
			s.cut(t, r, 10*i, *sshCut, func() { spread.allOn(t, spare.name) })
			r.complete(t, patience)
			s.wellKept(t)
			spare.wellKept(t)
			kept.same(t)
		})
	}
}

// prefers makes the Deployment, whose pods go to the first of two nodes if they can.
func (r rollout) prefers(t *testing.T, first, second string) {
	t.Helper()
	d := r.deployment()
	hostnames := func(names ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: names,
		}}}
	}
	spec := &d.Spec.Template.Spec
	spec.NodeSelector = nil
	spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{hostnames(first, second)},
		},
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
			{Weight: 100, Preference: hostnames(first)},
		},
	}}
	// Or the scheduler would rather spread them.
	spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 100, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector: d.Spec.Selector,
	}}
	if _, err := r.c.client.AppsV1().Deployments(r.namespace).Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.complete(t, patience)
}

// allOn checks that the Deployment's pods that stay are Ready, all on one node.
func (r rollout) allOn(t *testing.T, node string) {
	t.Helper()
	var stay int32
	for _, pod := range r.pods(t) {
		if pod.DeletionTimestamp != nil {
			continue
		}
		stay++
		if err := isReady(&pod); err != nil || pod.Spec.NodeName != node {
			t.Errorf("pod %s is on node %s, want %s: %v", pod.Name, pod.Spec.NodeName, node, err)
		}
	}
	if stay != r.replicas {
		t.Errorf("%d pods, want %d", stay, r.replicas)
	}
}

// cut cuts the node off for so long while a Deployment is rolled out, a command
// runs in a pod, and pods are deleted. At the end of that time, last is called.
func (s *sshNode) cut(t *testing.T, r rollout, version int, length time.Duration, last func()) {
	t.Helper()
	l := &life{
		T: t, c: s.c, n: s.node, remote: remote{mounts: true},
		namespace: s.c.namespace(t, fmt.Sprintf("%s-%d", s.name, version)),
	}
	victims := l.victims()
	command := l.counting()
	r.roll(t, version+1)
	wait.For(t, patience, "the rollout is on its way", func() error { return r.onItsWay(t) })

	begin := time.Now()
	s.h.Link().Cut()
	seen := s.watchReady(t)
	deletion := l.deletion(victims[1:]...)
	force(t, s.c, victims[0])
	time.Sleep(length / 2)
	r.roll(t, version+2)
	time.Sleep(time.Until(begin.Add(length)))
	s.leased(t)
	last()
	away := time.Since(begin)
	s.h.Link().Restore()
	back := time.Now()

	s.right(t, back)
	deletion.ends(t, back)
	s.ready()
	t.Logf("the node is Ready %s after the way was back", time.Since(back).Round(100*time.Millisecond))
	unready, reason := seen()
	notReady(t, begin, unready, reason, away)
	command.ends(t, l, away)
}

// backendSilence is the pause between keepalives.
const backendSilence = 5 * time.Second

// onItsWay is nil while a rollout has begun and is not complete.
func (r rollout) onItsWay(t *testing.T) error {
	t.Helper()
	d, err := r.c.client.AppsV1().Deployments(r.namespace).Get(t.Context(), "web", metav1.GetOptions{})
	if err == nil && (d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas == 0) {
		err = errors.New("it has not begun")
	}
	return err
}

// victims are pods to be deleted while the host is away.
func (l *life) victims() []*corev1.Pod {
	l.Helper()
	var victims []*corev1.Pod
	for i := range 3 {
		victims = append(victims, l.create(l.pod(forever, func(pod *corev1.Pod) { pod.Name = fmt.Sprint("victim-", i) })))
	}
	l.create(l.pod(forever))
	l.until("the pod is Ready", isReady)
	for _, victim := range victims {
		wait.Pod(l, l.c.client, l.namespace, victim.Name, patience, "Ready", isReady)
	}
	return victims
}

// deletion deletes pods and waits until they are gone, as users do.
type deletion struct{ *begun }

func (l *life) deletion(pods ...*corev1.Pod) deletion {
	args := []string{"delete", "pod"}
	for _, pod := range pods {
		args = append(args, pod.Name)
	}
	return deletion{l.begin(args...)}
}

func (d deletion) ends(t *testing.T, back time.Time) {
	t.Helper()
	if err := d.by(t, back.Add(afterwards())); err != nil {
		t.Errorf("kubectl delete: %v: %s", err, d.errs.String())
	}
}

// counting counts in the row's pod, twice a second, until it is told that it is enough.
type counting struct{ *begun }

const enough = "/tmp/enough"

func (l *life) counting() counting {
	l.Helper()
	c := counting{l.begin("exec", "subject", "--", "sh", "-c",
		"i=0; until [ -e "+enough+" ]; do echo $i; i=$((i+1)); sleep 0.5; done; echo end")}
	wait.For(l.T, patience, "the command runs", func() error {
		if !strings.Contains(c.out.String(), "1\n") {
			return fmt.Errorf("it printed %q", c.out.String())
		}
		return nil
	})
	return c
}

// ends wants the command to end well, with all that it said, after a short absence of
// its host, and with an error by itself after a long one. In between is either.
func (c counting) ends(t *testing.T, l *life, away time.Duration) {
	t.Helper()
	if away < 2*unheard {
		l.prints("", "exec", "subject", "--", "touch", enough)
	}
	err := c.by(t, time.Now().Add(patience))
	out := c.out.String()
	var want strings.Builder
	for i := range strings.Count(out, "\n") - 1 {
		fmt.Fprintln(&want, i)
	}
	want.WriteString("end\n")
	switch {
	case away >= 2*unheard && err == nil, err == nil && out != want.String(), err != nil && away < 3*backendSilence:
		t.Errorf("after %s the command ended with %v, printed %q and says %q", away, err, tail(out, 500), c.errs.String())
	case err != nil:
		t.Logf("the command ended with %v and says %q", err, c.errs.String())
	}
}

// watchReady looks at the node until the function that it returns is called, which
// tells when the node was first not Ready, and why.
func (s *sshNode) watchReady(t *testing.T) func() (time.Time, string) {
	ctx, stop := context.WithCancel(t.Context())
	var (
		wg     sync.WaitGroup
		when   time.Time
		reason string
	)
	wg.Go(func() {
		for tick := time.Tick(pace); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick:
			}
			node, err := s.c.client.CoreV1().Nodes().Get(ctx, s.name, metav1.GetOptions{})
			if err != nil {
				continue
			}
			for _, c := range node.Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue && when.IsZero() {
					when, reason = time.Now(), string(c.Status)+" "+c.Reason
				}
			}
		}
	})
	return func() (time.Time, string) {
		stop()
		wg.Wait()
		return when, reason
	}
}

// notReady checks when a node that was cut off turned NotReady: after 40 s without
// a listing, or not at all.
func notReady(t *testing.T, cut, when time.Time, reason string, away time.Duration) {
	t.Helper()
	const unreachable = 40 * time.Second
	// A listing that hangs in the dead connection, all but complete, may count still;
	// the status is written every few seconds.
	const latest = unreachable + unheard + 10*time.Second
	if when.IsZero() {
		if away > latest {
			t.Errorf("the node stayed Ready while its host was away for %s", away)
		}
		return
	}
	after := when.Sub(cut).Round(100 * time.Millisecond)
	t.Logf("the node is not Ready %s after the cut: %s", after, reason)
	// The last listing may be some seconds older than the cut.
	if reason != "False BackendUnreachable" || after < unreachable-20*time.Second || after > latest {
		t.Errorf("the node was %s after %s, want False BackendUnreachable after %s", reason, after, unreachable)
	}
}

// leased checks that the node's lease is renewed.
func (s *sshNode) leased(t *testing.T) {
	t.Helper()
	lease, err := s.c.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(
		t.Context(), s.name, metav1.GetOptions{},
	)
	if err != nil {
		t.Fatal(err)
	}
	holds := time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
	if age := time.Since(lease.Spec.RenewTime.Time); age > holds {
		t.Errorf("the lease was renewed %s ago, and holds for %s", age, holds)
	}
}

// keptPods are pods that go on whatever becomes of the way to them.
type keptPods struct {
	*life
	before map[string]string
}

// tolerant pods stay on a node that is not Ready or cannot be reached.
func tolerant(pod *corev1.Pod) {
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
		})
	}
}

// keep makes such pods: one was restarted before, one has probes.
func (s *sshNode) keep(t *testing.T, namespace string) *keptPods {
	t.Helper()
	l := &life{T: t, c: s.c, n: s.node, remote: remote{mounts: true}, namespace: s.c.namespace(t, namespace)}
	data := mount("data", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	l.create(l.pod(shell("true"), tolerant, func(pod *corev1.Pod) { pod.Name = "steady" }))
	l.create(l.pod(shell("[ -e /data/once ] || { touch /data/once; exit 1; }"), tolerant, data,
		func(pod *corev1.Pod) { pod.Name = "restarted" }))
	l.create(l.pod(shell("true"), tolerant, func(pod *corev1.Pod) {
		pod.Name = "probed"
		// Two run out of time before the connection is given up.
		pod.Spec.Containers[0].LivenessProbe = &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{Exec: run("true")}, PeriodSeconds: 2, FailureThreshold: 2, TimeoutSeconds: 9,
		}
	}))
	k := &keptPods{life: l}
	wait.For(t, patience, "the pods to be kept are Ready", func() error {
		k.before = running(t, s.c, s.node, whatever)
		for key := range k.before {
			if !strings.HasPrefix(key, namespace+"/") {
				delete(k.before, key)
			}
		}
		if len(k.before) != 3 || !strings.Contains(k.before[namespace+"/restarted"], "restarted 1 times") {
			return fmt.Errorf("there are %q", k.before)
		}
		return nil
	})
	return k
}

func whatever(*corev1.Pod) error { return nil }

// same checks that they are what they were: the same containers, with their
// restart counts.
func (k *keptPods) same(t *testing.T) {
	t.Helper()
	now := running(t, k.c, k.n, whatever)
	for _, pod := range slices.Sorted(maps.Keys(k.before)) {
		if now[pod] != k.before[pod] {
			t.Errorf("pod %s was %q and is %q", pod, k.before[pod], now[pod])
		}
	}
}
