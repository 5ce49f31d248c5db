package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/controlplane"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

// upgradedThrough are the versions of the API server of TestControlPlaneIsUpgraded.
var upgradedThrough = []string{"1.34", "1.35", "1.36", "1.37"}

// TestControlPlaneIsUpgraded replaces the API server by one of the next minor version, with
// etcd's data kept, in the middle of rollouts on a host over SSH and on a simulated remote:
// the rollouts get there, each pod runs once, the pods that ran before keep their containers,
// and the process leads on.
func TestControlPlaneIsUpgraded(t *testing.T) {
	lane.From(t, lane.All)
	servers := apiServers(t, upgradedThrough)
	turn(t, waiter, 150*time.Second)
	c := clusterOf(t, servers[0])
	host := newSSHNode(t, c, "upgraded-host")
	p := newSimProcess(t)
	view := p.as(c, "upgraded-sim")
	sim := newNode(t, c, "upgraded-sim", p.section())
	sim.configure(
		fmt.Sprintf("leaderElection: {enabled: true, namespace: %s, kubeconfig: %s}\n", electors, c.elections(t)),
	)
	sim.run()
	watch := watchDoubled(t, view)
	kept := []*keptPods{host.keep(t, "kept-host"), sim.steady(t, "kept-sim", true)}
	rollouts := []rollout{
		{c: c, n: host.node, namespace: c.namespace(t, host.name), replicas: 6, token: true},
		{c: c, n: sim, namespace: c.namespace(t, sim.name), replicas: 30, token: true},
	}
	for _, r := range rollouts {
		r.killed(t, 0)
	}
	terms := sim.terms()
	for i, server := range servers[1:] {
		for _, r := range rollouts {
			r.roll(t, i+1)
		}
		wait.For(t, patience, "a rollout is on its way", func() error { return rollouts[1].onItsWay(t) })
		if err := c.ReplaceAPIServer(t.Context(), server.path); err != nil {
			t.Fatal(err)
		}
		c.isOf(t, server)
		for _, r := range rollouts {
			r.n.ready()
			r.complete(t, patience)
		}
		for _, k := range kept {
			k.again(t)
		}
		host.wellKept(t)
		wait.For(t, patience, "the sim has what the API has, once", func() error {
			return rollouts[1].sameAsAPI(t, view.count, neverRestarted)
		})
	}
	if now := sim.terms(); now != terms {
		t.Errorf("%d terms began while the API server was replaced, want none", now-terms)
	}
	watch.end(t)
	for _, n := range []*node{host.node, sim} {
		n.ends(t)
	}
	host.h.empty(t)
}

// apiServer is a program of a version.
type apiServer struct{ path, version string }

// apiServers are those of minor versions; the test ends where one is not built.
func apiServers(t *testing.T, minors []string) []apiServer {
	t.Helper()
	var servers []apiServer
	for _, minor := range minors {
		tool, err := controlplane.APIServer(minor)
		if err != nil {
			t.Fatal(err)
		}
		version, err := tool.Version()
		if err != nil {
			t.Fatal(err)
		}
		servers = append(servers, apiServer{cptest.Tool(t, tool), version})
	}
	return servers
}

// clusterOf is a control plane with this API server that only one test uses.
func clusterOf(t *testing.T, server apiServer) *cluster {
	t.Helper()
	programs, err := controlplane.FindBinaries(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	programs.APIServer = server.path
	cp := cptest.New(t, controlplane.Config{Binaries: programs})
	c := &cluster{ControlPlane: cp, client: cptest.Client(t, cp.AdminConfig())}
	c.isOf(t, server)
	return c
}

// isOf checks of which version the API server says that it is.
func (c *cluster) isOf(t *testing.T, server apiServer) {
	t.Helper()
	said, err := c.client.Discovery().ServerVersion()
	if err != nil || said.GitVersion != server.version {
		t.Fatalf("the API server is of version %v, want %s: %v", said, server.version, err)
	}
}

// terms is how often the process began to lead its node.
func (n *node) terms() int { return strings.Count(n.log.String(), "leading the node") }

// again waits until the pods are what they were: while its node could not be heard, a pod
// may have been called not Ready.
func (k *keptPods) again(t *testing.T) {
	t.Helper()
	wait.For(t, patience, "the pods that were there before are what they were", func() error {
		now := running(t, k.c, k.n, whatever)
		for pod, was := range k.before {
			if now[pod] != was {
				return fmt.Errorf("pod %s was %q and is %q", pod, was, now[pod])
			}
		}
		return nil
	})
}

// needServer skips a test whose field API servers before 1.minor refuse.
func (l *life) needServer(minor int, field string) {
	l.Helper()
	server, err := l.c.client.Discovery().ServerVersion()
	l.must(err)
	had, err := strconv.Atoi(strings.TrimRight(server.Minor, "+"))
	if l.must(err); had < minor {
		l.Skipf("API server %s refuses %s", server.GitVersion, field)
	}
}

// needFields skips a test whose pod has fields that its older API server drops: no node can
// honour what it never sees. Others must keep them.
func (l *life) needFields(asked, made *corev1.Pod) {
	l.Helper()
	var dropped string
	switch {
	case asked.Spec.HostnameOverride != nil && made.Spec.HostnameOverride == nil:
		dropped = "hostnameOverride"
	case asked.Spec.Containers[0].RestartPolicyRules != nil && made.Spec.Containers[0].RestartPolicyRules == nil:
		dropped = "restartPolicyRules"
	default:
		return
	}
	server, err := l.c.client.Discovery().ServerVersion()
	l.must(err)
	if strings.HasPrefix(server.GitVersion, "v1.34.") { // on by default since 1.35
		l.Skipf("API server %s drops %s", server.GitVersion, dropped)
	}
	l.Fatalf("API server %s drops %s", server.GitVersion, dropped)
}
