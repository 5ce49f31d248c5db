package provider

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// Current is a node as pods are judged by it. It is only read.
type Current struct {
	// Labels, Taints and Allocatable are those that the API holds, or before it
	// has answered those that will be registered.
	Labels      map[string]string
	Taints      []corev1.Taint
	Allocatable corev1.ResourceList
	// OS and Kernel are the remote's; empty while it has not answered.
	OS, Kernel string
	// NetworkProblem says why pods cannot get an address now; empty if they can.
	NetworkProblem string
}

// Current returns what the node is now. It makes no call.
func (n *Node) Current() Current {
	facts, _ := n.remote.get()
	now := Current{}
	if node, _ := ownNode(n.own, n.cfg.NodeName); node != nil && len(node.Status.Allocatable) > 0 {
		now.Labels, now.Taints, now.Allocatable = node.Labels, node.Spec.Taints, node.Status.Allocatable
	} else {
		spec := nodeSpec{name: n.cfg.NodeName, backend: n.cfg.Backend.Name, NodeOptions: n.cfg.Node}
		now.Labels, now.Taints, now.Allocatable = spec.labels(facts), spec.Taints, spec.capacity(facts)
	}
	if facts != nil {
		now.OS, now.Kernel, now.NetworkProblem = facts.OS, facts.Kernel, networkProblem(facts)
	}
	return now
}

// networkProblem is a network that is not ready in the kubelet's words; empty when
// it is.
func networkProblem(facts *backend.NodeFacts) string {
	if facts.NetworkReady {
		return ""
	}
	return "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:" + facts.Message
}
