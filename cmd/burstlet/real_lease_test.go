package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/link"
	"github.com/burstlet/burstlet/test/kit/ports"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

// trio is two processes with three nodes, which are led by one Lease, each with a way of its own
// to it.
type trio struct {
	*stage
	tunnels [2]*link.Link
	cfgs    [2]config.Configuration
}

var trioNodes = []string{"trio-a", "trio-b", "trio-c"}

func newTrio(t *testing.T) *trio {
	t.Helper()
	s := &trio{stage: newStage(t)}
	entries := ""
	for _, name := range trioNodes {
		entries += fmt.Sprintf("- {node: {name: %s}, kubeconfig: %s}\n", name, s.nodeKubeconfig(name))
	}
	for i := range s.cfgs {
		s.tunnels[i] = s.tunnel()
		server := s.cp.AdminConfig()
		server.Host = "https://" + s.tunnels[i].Address()
		s.cfgs[i] = s.configure(fmt.Sprintf(`
node: {internalIP: 127.0.0.1}
backend: {type: sim, sim: {socket: "%%SOCKET%%"}}
healthzPort: %d
leaderElection: {enabled: true, namespace: default, name: trio, kubeconfig: %s, leaseDuration: 20s, renewDeadline: 15s}
nodes:
%s`, ports.Free(t), cptest.Kubeconfig(t, server), entries))
	}
	return s
}

// leads is nil when process i runs all its nodes.
func (s *trio) leads(i int) error {
	text, err := readyz(s.cfgs[i])
	if err == nil && strings.Count(text, " running\n") != len(s.cfgs[i].Nodes) {
		err = fmt.Errorf("process %d says %q", i, text)
	}
	return err
}

func (s *trio) lease(name string) *coordinationv1.Lease {
	s.t.Helper()
	lease, err := s.admin.CoordinationV1().Leases("default").Get(s.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return lease
}

// TestRealOneLeaseForAllNodes: two processes with three nodes have one Lease. Whoever leads, leads all
// of them; when it is gone, the other does; and a removal takes all over by it.
func TestRealOneLeaseForAllNodes(t *testing.T) {
	lane.From(t, lane.Gate) // a takeover lasts a lease
	t.Parallel()
	s := newTrio(t)
	s.run(s.cfgs[0])
	wait.For(t, patience, "the first leads", func() error { return s.leads(0) })
	second := s.run(s.cfgs[1])
	for _, name := range trioNodes {
		s.ready(name)
		s.pod(name, "on-"+name)
		s.podReady("on-" + name)
		_, err := s.admin.CoordinationV1().Leases("default").Get(t.Context(), "burstlet-"+name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("node %s has a lease of its own: %v", name, err)
		}
	}
	first := s.lease("trio")
	s.tunnels[0].Cut()
	cut := time.Now()
	wait.For(t, patience, "the second leads after the first could not renew", func() error { return s.leads(1) })
	t.Logf("takeover after %v", time.Since(cut))
	if now := s.lease("trio"); *now.Spec.HolderIdentity == *first.Spec.HolderIdentity || *now.Spec.LeaseTransitions != 1 {
		t.Errorf("%s holds the lease, after %d transitions", *now.Spec.HolderIdentity, *now.Spec.LeaseTransitions)
	}
	s.tunnels[0].Restore()
	for _, name := range trioNodes {
		s.pod(name, "later-"+name)
		s.podReady("later-" + name)
	}
	second.end()
	wait.For(t, patience, "the first leads after a clean end", func() error { return s.leads(0) })
	if found := s.remote.Audit().Violations; len(found) != 0 {
		t.Errorf("violations: %v", found)
	}
}

// TestRealRemoveNodesOfOneLease: a removal takes nodes over by their one Lease, and deletes it, for
// nobody holds it then. The process of the nodes that stay makes it again.
func TestRealRemoveNodesOfOneLease(t *testing.T) {
	lane.From(t, lane.Gate) // beside TestRealOneLeaseForAllNodes
	t.Parallel()
	s := newTrio(t)
	cfg := &s.cfgs[0]
	cfg.LeaderElection.Name = "trio-removed"
	for i := range cfg.Nodes {
		cfg.Nodes[i].Node.Name = strings.Replace(trioNodes[i], "trio", "removed", 1)
		cfg.Nodes[i].Kubeconfig = s.nodeKubeconfig(cfg.Nodes[i].Node.Name)
	}
	p := s.run(*cfg)
	wait.For(t, patience, "it leads", func() error { return s.leads(0) })
	for _, n := range cfg.Nodes {
		s.pod(n.Node.Name, "on-"+n.Node.Name)
		s.podReady("on-" + n.Node.Name)
	}
	p.end()
	s.remove("removed-b")
	s.remain("removed-a", "removed-c")

	cfg.Nodes = slices.Delete(slices.Clone(cfg.Nodes), 1, 2)
	p = s.run(*cfg)
	wait.For(t, patience, "it leads the nodes that stay", func() error { return s.leads(0) })
	if holder := s.lease("trio-removed").Spec.HolderIdentity; holder == nil || *holder == "" {
		t.Errorf("nobody holds the Lease: %v", holder)
	}
	for _, n := range cfg.Nodes {
		s.pod(n.Node.Name, "later-"+n.Node.Name)
		s.podReady("later-" + n.Node.Name)
	}
	p.end()
	s.remove()
	s.remain()
}

// remove removes nodes of the first process, or all; the Lease of all goes with them.
func (s *trio) remove(nodes ...string) {
	s.t.Helper()
	var out bytes.Buffer
	err := removeNodes(s.t.Context(), &out, s.cfgs[0], removeFlags{
		kubeconfig: s.cp.KubeconfigPath(), nodes: nodes, timeout: patience, forceAfter: time.Second,
	})
	if err != nil {
		s.t.Fatalf("remove nodes %v: %v\n%s", nodes, err, out.String())
	}
	name := s.cfgs[0].LeaderElection.Name
	_, err = s.admin.CoordinationV1().Leases("default").Get(s.t.Context(), name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		s.t.Errorf("the Lease after the removal of nodes %v: %v\n%s", nodes, err, out.String())
	}
}

// remain checks which of the nodes that are removed in turn are left.
func (s *trio) remain(want ...string) {
	s.t.Helper()
	nodes, err := s.admin.CoreV1().Nodes().List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	var left []string
	for i := range nodes.Items {
		if name := nodes.Items[i].Name; strings.HasPrefix(name, "removed-") {
			left = append(left, name)
		}
	}
	slices.Sort(left)
	if !slices.Equal(left, want) {
		s.t.Errorf("nodes %v are left, want %v", left, want)
	}
}
