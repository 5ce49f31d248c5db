package provider

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
)

// TestPressureConditions: in a kubelet's words, with a transition time of their own.
func TestPressureConditions(t *testing.T) {
	obs := observation{now: noon, started: noon, facts: goodFacts(), pressure: []corev1.NodeConditionType{
		corev1.NodeDiskPressure, corev1.NodePIDPressure,
	}}
	c := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, Message: message}
	}
	want := []corev1.NodeCondition{
		c(
			corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory",
			"kubelet has sufficient memory available",
		),
		c(corev1.NodeDiskPressure, corev1.ConditionTrue, "KubeletHasDiskPressure", "kubelet has disk pressure"),
		c(
			corev1.NodePIDPressure, corev1.ConditionTrue, "KubeletHasInsufficientPID", "kubelet has insufficient PID available",
		),
	}
	first := spec.build(obs, corev1.NodeStatus{}, corev1.NodeStatus{}).Status
	times := cmpopts.IgnoreFields(corev1.NodeCondition{}, "LastHeartbeatTime", "LastTransitionTime")
	if diff := cmp.Diff(want, first.Conditions[:3], times); diff != "" {
		t.Error(diff)
	}
	obs.now, obs.pressure = noon.Add(time.Minute), []corev1.NodeConditionType{
		corev1.NodeMemoryPressure, corev1.NodePIDPressure,
	}
	second := spec.build(obs, first, first).Status.Conditions
	if got := second[0]; got.Reason != "KubeletHasInsufficientMemory" ||
		got.Message != "kubelet has insufficient memory available" {
		t.Errorf("memory: %+v", got)
	}
	for i, changed := range []bool{true, true, false} {
		if got := second[i].LastTransitionTime.Equal(&first.Conditions[i].LastTransitionTime); got == changed {
			t.Errorf(
				"%s changed %v: %v, then %v", second[i].Type, changed, first.Conditions[i].LastTransitionTime,
				second[i].LastTransitionTime,
			)
		}
	}
}

// TestPressureBeforeItIsKnown: what the API holds stays, so that no pod comes to a full host
// because its node has just been started again.
func TestPressureBeforeItIsKnown(t *testing.T) {
	known := false
	c := &composer{
		spec: spec, remote: &remote{facts: goodFacts()}, lastRelist: func() time.Time { return noon },
		closing:  func() bool { return false },
		pressure: func() ([]corev1.NodeConditionType, bool) { return nil, known }, started: noon,
	}
	inAPI := &corev1.Node{}
	inAPI.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue}, {
		Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse,
	}}
	for _, want := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse} {
		conditions := c.compose(noon, inAPI).Status.Conditions
		for kind, status := range map[corev1.NodeConditionType]corev1.ConditionStatus{
			corev1.NodeDiskPressure: want, corev1.NodePIDPressure: corev1.ConditionFalse,
			corev1.NodeMemoryPressure: corev1.ConditionFalse,
		} {
			if got := condition(conditions, kind).Status; got != status {
				t.Errorf("known %v: %s is %s, want %s", known, kind, got, status)
			}
		}
		known = true
	}
}
