package admit

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestResize reads as what becomes of a change of an admitted pod's requests on a
// node of 2 cpus and 1 Gi.
func TestResize(t *testing.T) {
	for _, tt := range []struct {
		name            string
		had, wants      *corev1.Pod
		other           *corev1.Pod
		node            func(*Node)
		reason, message string
	}{
		{name: "room", had: aPod("p", asks("cpu", "1")), wants: aPod("p", asks("cpu", "2"))},
		{
			name: "others have it", had: aPod("p", asks("cpu", "1")), wants: aPod("p", asks("cpu", "2")),
			other:  aPod("q", asks("cpu", "1m")),
			reason: "Deferred", message: "Node didn't have enough resource: cpu, requested: 2000, used: 1, capacity: 2000",
		},
		{
			name: "never", had: aPod("p", asks("cpu", "1")), wants: aPod("p", asks("cpu", "3")),
			other:  aPod("q", asks("cpu", "1")),
			reason: "Infeasible", message: "Node didn't have enough capacity: cpu, requested: 3000, capacity: 2000",
		},
		{
			name: "never, of memory", had: aPod("p", asks("memory", "1Mi")), wants: aPod("p", asks("memory", "2Gi")),
			reason:  "Infeasible",
			message: "Node didn't have enough capacity: memory, requested: 2147483648, capacity: 1073741824",
		},
		{
			name: "the node is not known", had: aPod("p", asks("cpu", "1")), wants: aPod("p", asks("cpu", "2")),
			node: func(n *Node) { n.Allocatable = nil }, reason: "Deferred", message: "Kubelet cannot get node info.",
		},
		{
			name: "less, on a node that has become too small", had: aPod("p", asks("cpu", "2")),
			wants: aPod("p", asks("cpu", "1")),
			node:  func(n *Node) { n.Allocatable = list("cpu", "500m", "pods", "2") },
		},
		{
			name: "the pod itself is no other, also of the number", had: aPod("p"), wants: aPod("p", asks("cpu", "2")),
			other: aPod("q"),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, node := NewAdmittedPods(), aNode()
			l.Add(tt.had)
			if tt.other != nil {
				l.Add(tt.other)
			}
			if tt.node != nil {
				tt.node(&node)
			}
			r, admitted := l.Resize(tt.wants, tt.had, node)
			var got Rejection
			if r != nil {
				got = *r
			}
			if !admitted || got.Reason != tt.reason || got.Message != tt.message {
				t.Errorf("admitted %v, %+v", admitted, got)
			}
		})
	}
}

// TestResizeRoom: what a pod gives back is free once it has it no more; what it was
// refused it does not hold.
func TestResizeRoom(t *testing.T) {
	l, node := NewAdmittedPods(), aNode()
	big, small, other := aPod("p", asks("cpu", "2")), aPod("p", asks("cpu", "1")), aPod("q", asks("cpu", "1"))
	l.Add(big)
	if r, _ := l.Resize(small, big, node); r != nil {
		t.Fatalf("shrinks: %+v", r)
	}
	if r := decide(other, &node, l.used, nil); r == nil {
		t.Error("another pod has what this one still has")
	}
	l.Settle(small)
	if r, _ := l.Judge(other, node); r != nil {
		t.Errorf("after it has shrunk: %+v", r)
	}
	if r, _ := l.Resize(big, small, node); r == nil || r.Reason != corev1.PodReasonDeferred {
		t.Errorf("grows beside the other: %+v", r)
	}
	l.Remove("q")
	if r, _ := l.Resize(big, small, node); r != nil {
		t.Errorf("the other is gone: %+v", r)
	}
	if l.used.requested[corev1.ResourceCPU] != 2000 || l.used.pods != 1 {
		t.Errorf("held: %+v", l.used)
	}
	l.Remove("p")
	if _, admitted := l.Resize(big, small, node); admitted {
		t.Error("a pod that is gone was resized")
	}
	l.Settle(small)
	if len(l.used.requested) != 0 || l.used.pods != 0 {
		t.Errorf("left: %+v", l.used)
	}
}
