package provider

import corev1 "k8s.io/api/core/v1"

// Addresses are those that the node publishes in its status.
func (n *Node) Addresses() []corev1.NodeAddress {
	return nodeSpec{name: n.cfg.NodeName, NodeOptions: n.cfg.Node}.addresses()
}

func (s nodeSpec) addresses() []corev1.NodeAddress {
	return []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: s.InternalIP},
		{Type: corev1.NodeHostName, Address: s.name},
	}
}
