package provider

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// news is an Event about the node.
type news struct{ reason, message string }

// reported is what users were told last.
type reported struct {
	statuses      map[corev1.NodeConditionType]corev1.ConditionStatus
	unschedulable bool
	closing       bool
}

// conditionNews are the kubelet's reasons for a condition that is true and false.
var conditionNews = []struct {
	kind    corev1.NodeConditionType
	yes, no string
}{
	{corev1.NodeMemoryPressure, "NodeHasInsufficientMemory", "NodeHasSufficientMemory"},
	{corev1.NodeDiskPressure, "NodeHasDiskPressure", "NodeHasNoDiskPressure"},
	{corev1.NodePIDPressure, "NodeHasInsufficientPID", "NodeHasSufficientPID"},
	{corev1.NodeReady, "NodeReady", "NodeNotReady"},
}

// newsOf is what a kubelet tells of its node, in its words, and what was told
// after that:
//
//	at the start            Starting, and each pressure as it is
//	Ready, at the start     only if it became so in this life of the process
//	a condition changes     its reason
//	cordon, uncordon        NodeNotSchedulable, NodeSchedulable
//	the node is shut down   Shutdown
//
// node is what should stand in the API; last is nil at the start, which was at
// started.
func newsOf(last *reported, node *corev1.Node, unschedulable, closing bool, started time.Time) ([]news, *reported) {
	var out []news
	status := func(reason string) {
		out = append(out, news{reason, fmt.Sprintf("Node %s status is now: %s", node.Name, reason)})
	}
	first := last == nil
	if first {
		last = &reported{}
		out = append(out, news{"Starting", "Starting kubelet."})
	}
	now := &reported{statuses: map[corev1.NodeConditionType]corev1.ConditionStatus{}, unschedulable: unschedulable, closing: closing}
	if closing && !last.closing {
		out = append(out, news{"Shutdown", "Shutdown manager detected shutdown event"})
	}
	for _, n := range conditionNews {
		c := condition(node.Status.Conditions, n.kind)
		if c == nil {
			continue
		}
		now.statuses[n.kind] = c.Status
		// The API keeps whole seconds.
		old := n.kind == corev1.NodeReady && c.LastTransitionTime.Time.Before(started.Truncate(time.Second))
		switch {
		case last.statuses[n.kind] == c.Status, first && old:
		case c.Status == corev1.ConditionTrue:
			status(n.yes)
		default:
			status(n.no)
		}
	}
	switch {
	case unschedulable && !last.unschedulable:
		status("NodeNotSchedulable")
	case !unschedulable && last.unschedulable:
		status("NodeSchedulable")
	}
	return out, now
}

// herald tells of the node whenever there is news. It belongs to the loop that
// writes the node's status.
type herald struct {
	event   func(object *corev1.ObjectReference, kind, reason, message string)
	closing func() bool
	started time.Time
	// bootID is that of the host which the API knew last; empty for none.
	bootID string
	last   *reported
}

// NodeReference is what Events about a node name: kubectl describe node looks for
// those with its name as UID.
func NodeReference(name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Node", Name: name, UID: types.UID(name)}
}

// tell compares the Node that should stand in the API with what was told; have is
// the one there, nil for none.
func (h *herald) tell(node, have *corev1.Node) {
	if h.event == nil {
		return
	}
	ref := NodeReference(node.Name)
	if boot := node.Status.NodeInfo.BootID; boot != "" {
		if h.bootID != "" && h.bootID != boot {
			h.event(ref, corev1.EventTypeWarning, "Rebooted", fmt.Sprintf("Node %s has been rebooted, boot id: %s", node.Name, boot))
		}
		h.bootID = boot
	}
	var said []news
	said, h.last = newsOf(h.last, node, have != nil && have.Spec.Unschedulable, h.closing(), h.started)
	for _, n := range said {
		h.event(ref, corev1.EventTypeNormal, n.reason, n.message)
	}
}
