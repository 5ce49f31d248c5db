package provider

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// nodeEvent is an Event about the node.
type nodeEvent struct{ reason, message string }

// reported is what the last Events said.
type reported struct {
	statuses      map[corev1.NodeConditionType]corev1.ConditionStatus
	unschedulable bool
	closing       bool
}

// conditionReasons are the kubelet's reasons for a condition that is true and false.
var conditionReasons = []struct {
	kind    corev1.NodeConditionType
	yes, no string
}{
	{corev1.NodeMemoryPressure, "NodeHasInsufficientMemory", "NodeHasSufficientMemory"},
	{corev1.NodeDiskPressure, "NodeHasDiskPressure", "NodeHasNoDiskPressure"},
	{corev1.NodePIDPressure, "NodeHasInsufficientPID", "NodeHasSufficientPID"},
	{corev1.NodeReady, "NodeReady", "NodeNotReady"},
}

// eventsOf returns the Events that a kubelet records about its node, in its words,
// and what is reported after them:
//
//	at the start            Starting, and each pressure as it is
//	Ready, at the start     only if it became so in this life of the process
//	a condition changes     its reason
//	cordon, uncordon        NodeNotSchedulable, NodeSchedulable
//	the node is shut down   Shutdown
//
// node is what should stand in the API; last is nil at the start, which was at
// started.
func eventsOf(
	last *reported, node *corev1.Node, unschedulable, closing bool, started time.Time,
) ([]nodeEvent, *reported) {
	var out []nodeEvent
	status := func(reason string) {
		out = append(out, nodeEvent{reason, fmt.Sprintf("Node %s status is now: %s", node.Name, reason)})
	}
	first := last == nil
	if first {
		last = &reported{}
		out = append(out, nodeEvent{"Starting", "Starting kubelet."})
	}
	now := &reported{
		statuses: map[corev1.NodeConditionType]corev1.ConditionStatus{}, unschedulable: unschedulable, closing: closing,
	}
	if closing && !last.closing {
		out = append(out, nodeEvent{"Shutdown", "Shutdown manager detected shutdown event"})
	}
	for _, n := range conditionReasons {
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

// eventReporter records Events about the node when it changes. It belongs to the loop
// that writes the node's status.
type eventReporter struct {
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

// report compares the Node that should stand in the API with what was reported; have
// is the one there, nil for none.
func (r *eventReporter) report(node, have *corev1.Node) {
	if r.event == nil {
		return
	}
	ref := NodeReference(node.Name)
	if boot := node.Status.NodeInfo.BootID; boot != "" {
		if r.bootID != "" && r.bootID != boot {
			r.event(
				ref, corev1.EventTypeWarning, "Rebooted", fmt.Sprintf("Node %s has been rebooted, boot id: %s", node.Name, boot),
			)
		}
		r.bootID = boot
	}
	var events []nodeEvent
	events, r.last = eventsOf(r.last, node, have != nil && have.Spec.Unschedulable, r.closing(), r.started)
	for _, n := range events {
		r.event(ref, corev1.EventTypeNormal, n.reason, n.message)
	}
}
