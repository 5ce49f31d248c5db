package admit

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/burstlet/burstlet/backend"
)

// The scheduler's words for predicates that fail (pkg/scheduler/framework/plugins).
const (
	whyNodeAffinity    = "node(s) didn't match Pod's node affinity/selector"
	whyNodeName        = "node(s) didn't match the requested node name"
	whyNodePorts       = "node(s) didn't have free ports for the requested pod ports"
	whyTaintToleration = "node(s) had taints that the pod didn't tolerate"
)

// placement is for pods that a scheduler would not have put on this node.
func placement(pod *corev1.Pod, node *Node, used *usage) *Rejection {
	switch {
	case !affine(pod, node):
		return predicate(ReasonNodeAffinity, whyNodeAffinity)
	case pod.Spec.NodeName != "" && pod.Spec.NodeName != node.Name:
		return predicate(ReasonNodeName, whyNodeName)
	case used.conflicts(hostPorts(pod)):
		return predicate(ReasonNodePorts, whyNodePorts)
	case !backend.IsStatic(pod) && slices.ContainsFunc(node.Taints, func(t corev1.Taint) bool { return expels(t, pod) }):
		return predicate(ReasonTaintToleration, whyTaintToleration)
	}
	return nil
}

func predicate(name, why string) *Rejection {
	return &Rejection{name, "Predicate " + name + " failed: " + why}
}

// affine is true where node selector and required node affinity match; terms
// that cannot be parsed match nothing.
func affine(pod *corev1.Pod, node *Node) bool {
	match, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels},
	})
	return match && err == nil
}

// expels is true for a taint that ends pods which do not tolerate it; other
// effects are the scheduler's matter.
func expels(taint corev1.Taint, pod *corev1.Pod) bool {
	return taint.Effect == corev1.TaintEffectNoExecute &&
		!slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return tolerates(t, taint) })
}

// tolerates leaves out Lt and Gt: comparing tolerations are off in Kubernetes
// 1.36 (feature gate TaintTolerationComparisonOperators) and match nothing.
func tolerates(t corev1.Toleration, taint corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case "", corev1.TolerationOpEqual:
		return t.Value == taint.Value
	case corev1.TolerationOpExists:
		return true
	}
	return false
}
