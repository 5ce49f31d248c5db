package e2e

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/fakeaws/ecsprocess"
	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/launch"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// The commits that TestBurstletIsUpgraded upgrades from, and goes back to. No version is
// released yet.
const (
	// before is of 23 November 2026, in the morning: nodes had no identity on the Node, no
	// terms on their remotes and no evictions, and did not impersonate.
	before = "4ba2f803d0cf17b53e0c43b07dc38d8ec78f14a7"
	// beforeOnSim is the first that speaks with a simulated remote as today: another protocol
	// is refused, and the pods of "burstlet sim" go with it.
	beforeOnSim = "e7b9e2199dfcbf4001ae1552aec308c4b664b7fb"
)

// TestBurstletIsUpgraded: the burstlet of an earlier commit is replaced by that of this tree,
// goes back, and is replaced again, each time in another way and but for the first time in
// the middle of a rollout. The pods that it finds keep their containers, the rollouts get
// there, no pod runs twice, and in the end nothing is left.
func TestBurstletIsUpgraded(t *testing.T) {
	lane.From(t, lane.All)
	t.Run("host", func(t *testing.T) {
		old := launch.Release(t, before)
		turn(t, worker, 60*time.Second)
		c := theCluster(t)
		h := newContainerdHost(t)
		s := &sshNode{node: newNode(t, c, "release-host", h.section()), c: c, h: h, watch: watchHost(t, h)}
		u := upgrade{n: s.node, old: old, replicas: 6, count: h.count, fine: neverRestarted, mounts: true}
		u.thereAndBack(t)
		s.wellKept(t)
		s.ends(t)
		h.empty(t)
	})
	t.Run("sim", func(t *testing.T) {
		old := launch.Release(t, beforeOnSim)
		turn(t, worker, 40*time.Second)
		c := theCluster(t)
		p := newSimProcess(t)
		view := p.as(c, "release-sim")
		watch := watchDoubled(t, view)
		u := upgrade{
			n: newNode(t, c, "release-sim", p.section()), old: old, replicas: 30, count: view.count, fine: neverRestarted,
			mounts: true,
		}
		u.thereAndBack(t)
		u.n.ends(t)
		wait.For(t, patience, "nothing is left on the sim", func() error { return none(view.left(t, "")) })
		watch.end(t)
	})
	t.Run("ecs", func(t *testing.T) {
		old := launch.Release(t, before)
		turn(t, worker, 60*time.Second)
		c := theCluster(t)
		s := newECSServer(t)
		twins := s.watchTwins(t)
		n := newNode(t, c, "release-ecs", s.section(), ecsprocess.Access()...)
		u := upgrade{n: n, old: old, replicas: 20, count: s.count, fine: neverRestarted}
		u.thereAndBack(t)
		n.ends(t)
		wait.For(t, patience, "no task is left", func() error {
			var left []string
			for _, task := range s.TaskInfos() {
				if task.LastStatus != "STOPPED" {
					left = append(left, task.LastStatus+" task of "+task.Tags["burstlet/uid"])
				}
			}
			return none(left)
		})
		if err := none(twins()); err != nil {
			t.Error(err)
		}
	})
}

// TestTheEarlierSimSpeaksAsToday: a change of the protocol makes beforeOnSim too old.
func TestTheEarlierSimSpeaksAsToday(t *testing.T) {
	const path = "backend/sim/simrpc/protocol.go"
	number := func(source string) string {
		match := regexp.MustCompile(`(?m)^const protocol = (\d+)$`).FindStringSubmatch(source)
		if match == nil {
			t.Fatalf("%s does not say which protocol it is", path)
		}
		return match[1]
	}
	then := number(launch.ReleaseSource(t, beforeOnSim, path))
	tree, err := os.ReadFile("../../../" + path)
	if err != nil {
		t.Fatal(err)
	}
	if now := number(string(tree)); then != now {
		t.Errorf(
			"commit %s speaks protocol %s, and this tree %s: name the first commit that speaks it", beforeOnSim, then, now,
		)
	}
}

func none(left []string) error {
	if len(left) == 0 {
		return nil
	}
	return errors.New(strings.Join(left, ", "))
}

// upgrade is of one node, whose burstlet changes.
type upgrade struct {
	n        *node
	old      string // the program of the earlier commit
	replicas int32
	count    counts
	// fine is what pods of rollouts must be.
	fine func(*corev1.Pod) error
	// mounts says that pods have volumes.
	mounts bool
}

func (u upgrade) thereAndBack(t *testing.T) {
	n, c := u.n, u.n.c
	r := rollout{c: c, n: n, namespace: c.namespace(t, n.name), replicas: u.replicas, token: u.mounts}
	u.becomes(t, u.old)
	n.run()
	r.killed(t, 0)
	ofOld, all := n.steady(t, n.name+"-old", u.mounts), running(t, c, n, whatever)

	// A stop, with nothing else going on: no pod of the node notices.
	n.stop()
	u.becomes(t, "")
	n.run()
	u.well(t, r, ofOld, &keptPods{life: ofOld.life, before: all})
	ofNew := n.steady(t, n.name+"-new", u.mounts)

	for version, step := range []struct {
		end     func()
		program string
	}{{n.kill, u.old}, {n.stop, ""}} {
		r.roll(t, version+1)
		wait.For(t, patience, "the rollout is on its way", func() error { return r.onItsWay(t) })
		step.end()
		u.becomes(t, step.program)
		n.run()
		u.well(t, r, ofOld, ofNew)
	}
}

// becomes has the node run another program, "" for that of this tree, from its next start on.
// The earlier ones refuse keys that they do not know.
func (u upgrade) becomes(t *testing.T, program string) {
	t.Helper()
	if u.n.program == program {
		t.Fatal("the program does not change")
	}
	if u.n.program = program; program != "" {
		u.n.edit(noEvictions, "")
	} else {
		u.n.edit("backend:", noEvictions+"backend:")
	}
}

// ends deletes the node's rollout, and when that is gone, all its other pods.
func (n *node) ends(t *testing.T) {
	t.Helper()
	if err := n.c.client.AppsV1().Deployments(n.name).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wait.For(t, patience, "the rollout's pods are gone", func() error {
		list, err := n.c.client.CoreV1().Pods(n.name).List(t.Context(), metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("there are %d", len(list.Items))
		}
		return err
	})
	n.deletePods(t)
}

// steady makes pods that are to be kept; mounts says that they have volumes.
func (n *node) steady(t *testing.T, namespace string, mounts bool) *keptPods {
	t.Helper()
	l := &life{T: t, c: n.c, n: n, remote: remote{mounts: mounts}, namespace: n.c.namespace(t, namespace)}
	const pods = 3
	for i := range pods {
		l.create(l.pod(forever, tolerant, func(pod *corev1.Pod) { pod.Name = fmt.Sprint("steady-", i) }))
	}
	k := &keptPods{life: l}
	wait.For(t, patience, "the pods to be kept are Ready", func() error {
		k.before = map[string]string{}
		for pod, is := range running(t, n.c, n, neverRestarted) {
			if strings.HasPrefix(pod, namespace+"/") {
				k.before[pod] = is
			}
		}
		if len(k.before) != pods {
			return fmt.Errorf("%d are", len(k.before))
		}
		return nil
	})
	return k
}

// well waits until the rollout is complete, the remote has what the API has, once, and the
// kept pods are what they were.
func (u upgrade) well(t *testing.T, r rollout, kept ...*keptPods) {
	t.Helper()
	r.complete(t, patience)
	wait.For(t, patience, "the remote has what the API has, once", func() error {
		return r.sameAsAPI(t, u.count, u.fine)
	})
	for _, k := range kept {
		k.again(t)
	}
}
