package statusmgr

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMergePhase(t *testing.T) {
	cases := []struct {
		name       string
		held, want corev1.PodPhase
		mayRun     bool
		phase      corev1.PodPhase
		heldBack   bool
	}{
		{"start", corev1.PodPending, corev1.PodRunning, true, corev1.PodRunning, false},
		{"end", corev1.PodRunning, corev1.PodFailed, false, corev1.PodFailed, false},
		{"end, something may run", corev1.PodRunning, corev1.PodFailed, true, corev1.PodRunning, true},
		{"end of a pod without a phase", "", corev1.PodFailed, true, corev1.PodPending, true},
		{"ended by another", corev1.PodFailed, corev1.PodRunning, true, corev1.PodFailed, false},
		{"ended otherwise by another", corev1.PodFailed, corev1.PodSucceeded, false, corev1.PodFailed, false},
		{"ended, late containers", corev1.PodSucceeded, corev1.PodSucceeded, true, corev1.PodSucceeded, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			held := &corev1.PodStatus{Phase: c.held, Reason: "held", Message: "held"}
			want := &corev1.PodStatus{Phase: c.want, Reason: "want", Message: "want"}
			got, back := merge(held, want, c.mayRun, time.Now())
			if got.Phase != c.phase || back != c.heldBack {
				t.Errorf("%s, held back %v; want %s, %v", got.Phase, back, c.phase, c.heldBack)
			}
			source := "want"
			if c.phase != c.want {
				source = "held"
			}
			if got.Reason != source || got.Message != source {
				t.Errorf("reason %q message %q, want those of the phase's source %q", got.Reason, got.Message, source)
			}
		})
	}
}

func TestMergeKeepsWhatOthersWrite(t *testing.T) {
	held := &corev1.PodStatus{
		QOSClass: corev1.PodQOSBurstable, NominatedNodeName: "n", ObservedGeneration: 7,
		ResourceClaimStatuses:       []corev1.PodResourceClaimStatus{{Name: "c"}},
		ExtendedResourceClaimStatus: &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "e"},
	}
	want := &corev1.PodStatus{QOSClass: corev1.PodQOSGuaranteed, ObservedGeneration: 3}
	got, _ := merge(held, want, false, time.Now())
	if diff := cmp.Diff(
		held, got, cmp.Transformer("conditions", func(c []corev1.PodCondition) int { return len(c) }),
	); diff != "" {
		t.Error(diff)
	}
	got, _ = merge(&corev1.PodStatus{}, want, false, time.Now())
	if got.QOSClass != corev1.PodQOSGuaranteed {
		t.Errorf("QoS class %q, want ours where none is set", got.QOSClass)
	}
}

func TestMergeConditions(t *testing.T) {
	now := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	c := func(t corev1.PodConditionType, s corev1.ConditionStatus) corev1.PodCondition {
		return corev1.PodCondition{Type: t, Status: s}
	}
	yes, no := corev1.ConditionTrue, corev1.ConditionFalse
	cases := []struct {
		name             string
		held, want, then []corev1.PodCondition
		phase            corev1.PodPhase
	}{
		{
			name: "the API's order stays, new ones follow",
			held: []corev1.PodCondition{c("gate", yes), c(corev1.PodReady, no), c(corev1.PodScheduled, yes)},
			want: []corev1.PodCondition{c(corev1.PodInitialized, yes), c(corev1.PodReady, yes)},
			then: []corev1.PodCondition{
				c("gate", yes), c(corev1.PodReady, yes), c(corev1.PodScheduled, yes), c(corev1.PodInitialized, yes),
			},
		},
		{
			name: "ours that is no longer wanted goes",
			held: []corev1.PodCondition{
				c(corev1.PodResizePending, yes), c(corev1.PodResizeInProgress, yes), c(corev1.AllContainersRestarting, yes),
				c(AwaitingCapacity, yes), c("gate", no),
			},
			then: []corev1.PodCondition{c("gate", no)},
		},
		{
			name: "another's is ours when we speak of it",
			held: []corev1.PodCondition{c("gate", yes)}, want: []corev1.PodCondition{c("gate", no)},
			then: []corev1.PodCondition{c("gate", no)},
		},
		{
			name: "DisruptionTarget waits for the end",
			want: []corev1.PodCondition{c(corev1.DisruptionTarget, yes)},
			then: []corev1.PodCondition{},
		},
		{
			name: "DisruptionTarget of another stays",
			held: []corev1.PodCondition{c(corev1.DisruptionTarget, yes)},
			then: []corev1.PodCondition{c(corev1.DisruptionTarget, yes)},
		},
		{
			name: "DisruptionTarget goes with the end, its time is the sending's",
			want: []corev1.PodCondition{c(corev1.DisruptionTarget, yes)}, phase: corev1.PodFailed,
			then: []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: yes, LastTransitionTime: metav1.NewTime(now)}},
		},
		{
			name: "an ended pod without readiness gets none", phase: corev1.PodFailed,
			then: []corev1.PodCondition{},
		},
		{
			name: "a held readiness ends with the pod", phase: corev1.PodFailed,
			held: []corev1.PodCondition{c(corev1.PodReady, yes)},
			then: []corev1.PodCondition{{
				Type: corev1.PodReady, Status: no, Reason: reasonPodFailed, LastTransitionTime: metav1.NewTime(now),
			}},
		},
		{
			name: "an unknown readiness ends with the pod", phase: corev1.PodSucceeded,
			want: []corev1.PodCondition{c(corev1.ContainersReady, corev1.ConditionUnknown)},
			then: []corev1.PodCondition{{
				Type: corev1.ContainersReady, Status: no, Reason: reasonPodCompleted, LastTransitionTime: metav1.NewTime(now),
			}},
		},
		{
			name: "a better reason for not ready stays", phase: corev1.PodFailed,
			want: []corev1.PodCondition{{Type: corev1.PodReady, Status: no, Reason: "ContainersNotReady"}},
			then: []corev1.PodCondition{{Type: corev1.PodReady, Status: no, Reason: "ContainersNotReady"}},
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			held := &corev1.PodStatus{Phase: corev1.PodRunning, Conditions: tc.held}
			want := &corev1.PodStatus{Phase: tc.phase, Conditions: tc.want}
			before := held.DeepCopy()
			got, _ := merge(held, want, false, now)
			if diff := cmp.Diff(tc.then, got.Conditions); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, held); diff != "" {
				t.Errorf("merge changed what it was given: %s", diff)
			}
			again, _ := merge(got, want, false, now.Add(time.Hour))
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("merging again differs: %s", diff)
			}
		})
	}
}

func TestPatchCarriesItsPreconditions(t *testing.T) {
	api := testPod("p", "u1")
	api.ResourceVersion = "42"
	decode := func(data []byte) (uid, version string) {
		var p struct {
			Metadata struct{ UID, ResourceVersion string }
		}
		if err := json.Unmarshal(data, &p); err != nil {
			t.Fatal(err)
		}
		return p.Metadata.UID, p.Metadata.ResourceVersion
	}
	s := running()
	data, err := statusPatch(api, &s)
	if err != nil {
		t.Fatal(err)
	}
	if uid, version := decode(data); uid != "u1" || version != "42" {
		t.Errorf("patch has UID %q, version %q", uid, version)
	}
	if data, err = statusPatch(api, &api.Status); err != nil || data != nil {
		t.Errorf("patch of an equal status: %s, %v", data, err)
	}
}
