package provider

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNodeEventsAreTheKubelets(t *testing.T) {
	started := time.Date(2030, 1, 2, 3, 4, 5, 600, time.UTC)
	// with is a node whose Ready condition turned so at a time.
	with := func(ready, disk corev1.ConditionStatus, since time.Time) *corev1.Node {
		c := func(kind corev1.NodeConditionType, status corev1.ConditionStatus) corev1.NodeCondition {
			return corev1.NodeCondition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(since)}
		}
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n1"},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
				c(corev1.NodeMemoryPressure, corev1.ConditionFalse), c(corev1.NodeDiskPressure, disk),
				c(corev1.NodePIDPressure, corev1.ConditionFalse), c(corev1.NodeNetworkUnavailable, corev1.ConditionFalse),
				c(corev1.NodeReady, ready),
			}},
		}
	}
	const yes, no = corev1.ConditionTrue, corev1.ConditionFalse
	long, fresh := started.Add(-time.Hour), started.Truncate(time.Second) // as the API gives it back
	cordoned := &corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true}}
	atStart := []string{
		"Starting: Starting kubelet.", "NodeHasSufficientMemory: Node n1 status is now: NodeHasSufficientMemory",
		"NodeHasNoDiskPressure: Node n1 status is now: NodeHasNoDiskPressure",
		"NodeHasSufficientPID: Node n1 status is now: NodeHasSufficientPID",
	}
	type step struct {
		node, have *corev1.Node
		closing    bool
		want       []string
	}
	ready := step{node: with(yes, no, long), want: atStart}
	for name, steps := range map[string][]step{
		"a new node": {{
			node: with(yes, no, fresh), want: append(slices.Clone(atStart), "NodeReady: Node n1 status is now: NodeReady"),
		}},
		"one that was ready before and is still": {ready, {node: with(yes, no, long)}},
		"one that becomes unready and ready": {
			ready,
			{node: with(no, no, fresh), want: []string{"NodeNotReady: Node n1 status is now: NodeNotReady"}},
			{node: with(no, no, fresh)},
			{node: with(yes, no, fresh), want: []string{"NodeReady: Node n1 status is now: NodeReady"}},
		},
		"a disk that fills": {ready, {
			node: with(yes, yes, long), want: []string{"NodeHasDiskPressure: Node n1 status is now: NodeHasDiskPressure"},
		}},
		"cordon and uncordon": {
			ready,
			{
				node: with(yes, no, long), have: cordoned,
				want: []string{"NodeNotSchedulable: Node n1 status is now: NodeNotSchedulable"},
			},
			{node: with(yes, no, long), have: cordoned},
			{
				node: with(yes, no, long), have: &corev1.Node{},
				want: []string{"NodeSchedulable: Node n1 status is now: NodeSchedulable"},
			},
		},
		"a shutdown": {
			ready,
			{node: with(no, no, fresh), closing: true, want: []string{
				"Shutdown: Shutdown manager detected shutdown event", "NodeNotReady: Node n1 status is now: NodeNotReady",
			}},
			{node: with(no, no, fresh), closing: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var said []string
			closing := false
			h := &eventReporter{started: started, closing: func() bool { return closing }, event: func(
				ref *corev1.ObjectReference, kind, reason, message string,
			) {
				if ref.Kind != "Node" || ref.Name != "n1" || ref.UID != "n1" || kind != corev1.EventTypeNormal {
					t.Errorf("an Event of type %s about %+v", kind, ref)
				}
				said = append(said, fmt.Sprintf("%s: %s", reason, message))
			}}
			for i, s := range steps {
				said, closing = nil, s.closing
				if h.report(s.node, s.have); !slices.Equal(said, s.want) {
					t.Errorf("step %d tells %q, want %q", i, said, s.want)
				}
			}
		})
	}
}
