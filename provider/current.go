package provider

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// Current is a node as pods are judged by it. It is only read.
type Current struct {
	// Described is true once the remote has answered: before, what is here is what the API
	// holds from an earlier life of the node, if anything, and no pod may be judged by it.
	Described bool
	// Labels, Taints and Allocatable are those that the API holds, with what the
	// remote says and what is configured above them.
	Labels      map[string]string
	Taints      []corev1.Taint
	Allocatable corev1.ResourceList
	// OS and Kernel are the remote's; empty while it has not answered.
	OS, Kernel string
	// SupplementalGroupsPolicy is true where the remote can be strict about supplemental
	// groups.
	SupplementalGroupsPolicy bool
	// RecursiveReadOnly are the runtime handlers that can make a mount read-only with all
	// that is mounted below it.
	RecursiveReadOnly []string
	// NetworkProblem says why pods cannot get an address now; empty if they can.
	NetworkProblem string
}

// currentOf is a Current with what it was made of, so that a node with thousands of
// pods does not make it for each.
type currentOf struct {
	facts *backend.NodeFacts
	node  *corev1.Node
	now   Current
}

// Current returns what the node is now. It makes no call.
func (n *Node) Current() Current {
	facts, _ := n.remote.get()
	node, _ := ownNode(n.own, n.cfg.NodeName)
	if c := n.current.Load(); c != nil && c.facts == facts && c.node == node {
		return c.now
	}
	c := &currentOf{facts, node, n.currentOf(facts, node)}
	n.current.Store(c)
	return c.now
}

// currentOf is what the node is by what its remote said and the API holds; either may
// be nil.
func (n *Node) currentOf(facts *backend.NodeFacts, node *corev1.Node) Current {
	spec := nodeSpec{name: n.cfg.NodeName, backend: n.cfg.Backend.Name, NodeOptions: n.cfg.Node}
	now := Current{Labels: spec.labels(facts), Taints: spec.Taints, Allocatable: spec.allocatable(facts)}
	if node != nil && len(node.Status.Allocatable) > 0 {
		// What the remote says may not have arrived there yet.
		now.Labels, now.Allocatable = over(now.Labels, node.Labels), over(now.Allocatable, node.Status.Allocatable)
		now.Taints = node.Spec.Taints
	}
	if facts != nil {
		now.Described = true
		now.RecursiveReadOnly = facts.RecursiveReadOnly
		now.OS, now.Kernel, now.NetworkProblem = facts.OS, facts.Kernel, networkProblem(facts)
		now.SupplementalGroupsPolicy = facts.SupplementalGroupsPolicy
	}
	return now
}

// over is what the API holds with what is ours above it.
func over[M ~map[K]V, K comparable, V any](ours, inAPI M) M {
	all := maps.Clone(inAPI)
	if all == nil {
		return ours
	}
	maps.Copy(all, ours)
	return all
}

// networkProblem is a network that is not ready in the kubelet's words; empty when
// it is.
func networkProblem(facts *backend.NodeFacts) string {
	if facts.NetworkReady {
		return ""
	}
	return "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:" + facts.Message
}
