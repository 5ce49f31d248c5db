package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/remotehost"
	"github.com/burstlet/burstlet/test/parts/remotehost/containerd"
)

// runtimes are the versions of containerd that hosts have, beside the machine's own,
// which is that of all other tests.
var runtimes = []struct {
	name    string
	version containerd.Version
}{
	{"containerd17", containerd.V17},
	{"containerd2", containerd.V2},
}

// hostSuites are what a host must pass with every runtime.
var hostSuites = []struct {
	name  string
	share share
	takes time.Duration
	run   func(t *testing.T, node string, options ...func(*remotehost.Config))
}{
	{"pods", worker, 150 * time.Second, hostPasses},
	{"kills", worker, 60 * time.Second, burstletKilled},
	{"restarts", waiter, 175 * time.Second, daemonsRestart},
	{"pressure", waiter, 120 * time.Second, hostUnderPressure},
	{"chaos", worker, 360 * time.Second, hostKilled},
}

func runs(version containerd.Version) func(*remotehost.Config) {
	return func(c *remotehost.Config) { c.Containerd = version }
}

// TestRuntimes runs the suites of hosts with each containerd.
func TestRuntimes(t *testing.T) {
	lane.From(t, lane.All)
	for _, runtime := range runtimes {
		for _, suite := range hostSuites {
			t.Run(runtime.name+" "+suite.name, func(t *testing.T) {
				containerd.NeedVersion(t, runtime.version)
				turn(t, suite.share, suite.takes)
				suite.run(t, runtime.name+"-"+suite.name, runs(runtime.version))
			})
		}
	}
}

// commonRows are rows of TestHost that differ most between kinds of host: what the
// runtime, its cgroup driver and the kernel do.
var commonRows = []string{
	"QoS Guaranteed", "QoS Burstable", "QoS BestEffort", "resources of the pod", "PIDs limit", "OOM", "restart policies",
	"resize in place", "resize with a restart", "ephemeral storage", "statistics",
	"emptyDir", "emptyDir in memory", "configMap updated", "secret", "projected", "subPath",
	"users and groups", "seccomp of the runtime", "supplementalGroupsPolicy Strict", "hostUsers",
	"shared process namespace", "hostPort", "privileged",
	"kubectl logs", "kubectl exec", "kubectl cp", "kubectl port-forward",
}

// rowsPass runs rows of TestHost by their names, so many at once, on a node whose host
// is h.
func rowsPass(t *testing.T, n *node, h *hostView, names []string, atOnce, slow int) {
	rows := slices.Concat(hostFields(), hostVerbs())
	areRows(t, names, rows)
	rows = slices.DeleteFunc(rows, func(r row[*hostLife]) bool { return !slices.Contains(names, r.name) })
	slots := make(chan struct{}, room(atOnce))
	together(t, rows, row[*hostLife].title, func(t *testing.T, r row[*hostLife]) {
		slots <- struct{}{}
		defer func() { <-slots }()
		r.run(
			&hostLife{
				life: &life{T: t, c: n.c, n: n, namespace: n.c.namespace(t, rowNamespace(n.name, r.name)), slow: slow}, h: h,
			},
		)
	})
}

// TestContainerd2 shows on one node with containerd 2 what is most likely to differ from
// 1.6. TestRuntimes shows all.
func TestContainerd2(t *testing.T) {
	lane.From(t, lane.Gate)
	containerd.NeedVersion(t, containerd.V2)
	turn(t, worker, 33*time.Second)
	c := theCluster(t)
	h := newContainerdHost(t, runs(containerd.V2))
	n := newNode(t, c, "short-containerd2", h.section(fmt.Sprintf("podPidsLimit: %d", pidsLimit)))
	n.run()
	rowsPass(t, n, h.hostView, commonRows, len(commonRows), 1)
	if !t.Failed() {
		n.deletePods(t)
		h.empty(t)
	}
}

// TestContainerdIsUpgraded upgrades containerd 1.7 to 2 below pods that run and in the
// middle of a rollout: the former do not notice, and the latter gets there.
func TestContainerdIsUpgraded(t *testing.T) {
	lane.From(t, lane.All)
	containerd.NeedVersion(t, containerd.V17)
	containerd.NeedVersion(t, containerd.V2)
	turn(t, waiter, 60*time.Second)
	c := theCluster(t)
	s := newSSHNode(t, c, "upgraded", runs(containerd.V17))
	r := rollout{c: c, n: s.node, namespace: c.namespace(t, "upgraded"), replicas: 10, token: true}
	r.killed(t, 0)
	kept := s.keep(t, "upgraded-kept")
	r.roll(t, 1)
	wait.For(t, patience, "the rollout is on its way", func() error { return r.onItsWay(t) })
	if err := s.h.UpgradeContainerd(t.Context(), containerd.V2); err != nil {
		t.Fatal(err)
	}
	s.right(t, time.Now())
	s.ready()
	r.complete(t, patience)
	s.wellKept(t)
	kept.same(t)
	// The pods of before can be told to end, too.
	r.roll(t, 2)
	r.complete(t, patience)
	s.wellKept(t)
}
