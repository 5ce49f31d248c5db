package statusmgr

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTransitionTimeChangesOnlyOnTransition(t *testing.T) {
	bubble(t, func(h *harness) {
		pod := h.api.put(testPod("p", "u1"))
		ready := func() corev1.PodCondition {
			h.settle()
			return *findCondition(h.api.pod("p").Status.Conditions, corev1.PodReady)
		}
		h.SetStatus(pod, running())
		first := ready().LastTransitionTime
		if !first.Equal(wholeSecond()) {
			t.Errorf("first time %s, want now", first)
		}

		h.pass(time.Minute)
		same := running()
		same.Conditions[1].Reason = "StillReady"
		same.Conditions[1].LastTransitionTime = metav1.Now() // the engine's word does not count
		h.SetStatus(pod, same)
		if c := ready(); c.Reason != "StillReady" || !c.LastTransitionTime.Equal(&first) {
			t.Errorf("%s since %s, want since %s", c.Reason, c.LastTransitionTime, first)
		}

		h.pass(time.Minute)
		changed := running()
		changed.Conditions[1].Status = corev1.ConditionFalse
		changed.Conditions[1].LastTransitionTime = first
		h.SetStatus(pod, changed)
		if c := ready(); !c.LastTransitionTime.Equal(wholeSecond()) {
			t.Errorf("changed at %s, want now", c.LastTransitionTime)
		}
	})
}

func wholeSecond() *metav1.Time {
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	return &now
}

func TestStartTimeStays(t *testing.T) {
	early := metav1.NewTime(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC))
	now := early.Add(time.Hour)
	late := metav1.NewTime(now.Add(time.Minute))
	cases := []struct {
		name             string
		before, in, want *metav1.Time
	}{
		{"none yet", nil, nil, &metav1.Time{Time: now}},
		{"the engine's", nil, &early, &early},
		{"kept", &early, &late, &early},
		{"kept when left out", &early, nil, &early},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := prepare(
				testPod("p", "u"), &corev1.PodStatus{StartTime: c.before}, &corev1.PodStatus{StartTime: c.in}, now,
			)
			if err != nil {
				t.Fatal(err)
			}
			if !got.StartTime.Equal(c.want) {
				t.Errorf("start time %s, want %s", got.StartTime, c.want)
			}
		})
	}
}

func TestObservedGenerationFollowsThePod(t *testing.T) {
	bubble(t, func(h *harness) {
		pod := h.api.put(testPod("p", "u1"))
		s := running()
		s.Conditions = append(s.Conditions, corev1.PodCondition{
			Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue, ObservedGeneration: 1,
		})
		h.SetStatus(pod, s)
		h.settle()
		pod = h.api.update("p", func(p *corev1.Pod) { p.Generation = 5 })
		h.SetStatus(pod, s)
		h.pass(calmLater)
		got := h.api.pod("p").Status
		if got.ObservedGeneration != 5 {
			t.Errorf("observedGeneration %d, want 5", got.ObservedGeneration)
		}
		for typ, want := range map[corev1.PodConditionType]int64{
			corev1.PodReady: 5, corev1.PodInitialized: 5, corev1.PodResizeInProgress: 1, corev1.PodScheduled: 0,
		} {
			if c := findCondition(got.Conditions, typ); c.ObservedGeneration != want {
				t.Errorf("%s has observedGeneration %d, want %d", typ, c.ObservedGeneration, want)
			}
		}
		old := pod.DeepCopy()
		old.Generation = 4
		h.SetStatus(old, s)
		h.pass(calmLater)
		if g := h.api.pod("p").Status.ObservedGeneration; g != 5 {
			t.Errorf("observedGeneration went back to %d", g)
		}
		if want, err := prepare(old, &corev1.PodStatus{ObservedGeneration: 5}, &s, time.Now()); err != nil ||
			want.ObservedGeneration != 5 {
			t.Errorf("wanted observedGeneration went back to %d (%v)", want.ObservedGeneration, err)
		}
	})
}

func TestStatusIsNormalised(t *testing.T) {
	now := time.Date(2024, 1, 1, 0, 0, 0, 999, time.FixedZone("east", 3600))
	pod := testPod("p", "u")
	pod.Spec.InitContainers = []corev1.Container{{Name: "z"}, {Name: "y"}}
	in := corev1.PodStatus{
		Conditions: []corev1.PodCondition{
			{Type: "x", Status: corev1.ConditionFalse},
			{Type: "x", Status: corev1.ConditionTrue, LastProbeTime: metav1.NewTime(now)},
		},
		InitContainerStatuses: []corev1.ContainerStatus{{Name: "y"}, {Name: "z"}},
		ContainerStatuses: []corev1.ContainerStatus{
			{Name: "unknown 2"},
			{Name: "b", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now)}}},
			{Name: "unknown 1"},
			{Name: "a", LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				StartedAt: metav1.NewTime(now), FinishedAt: metav1.NewTime(now),
			}}},
		},
	}
	untouched := in.DeepCopy()
	got, err := prepare(pod, &corev1.PodStatus{}, &in, now)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(untouched, &in); diff != "" {
		t.Errorf("the caller's status was changed: %s", diff)
	}
	names := func(list []corev1.ContainerStatus) (out []string) {
		for _, s := range list {
			out = append(out, s.Name)
		}
		return out
	}
	if diff := cmp.Diff([]string{"a", "b", "unknown 1", "unknown 2"}, names(got.ContainerStatuses)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"z", "y"}, names(got.InitContainerStatuses)); diff != "" {
		t.Error(diff)
	}
	if len(got.Conditions) != 1 || got.Conditions[0].Status != corev1.ConditionTrue {
		t.Errorf("conditions %+v, want the last of the type", got.Conditions)
	}
	for name, at := range map[string]metav1.Time{
		"start": *got.StartTime, "probe": got.Conditions[0].LastProbeTime, "transition": got.Conditions[0].LastTransitionTime,
		"started":  got.ContainerStatuses[1].State.Running.StartedAt,
		"finished": got.ContainerStatuses[0].LastTerminationState.Terminated.FinishedAt,
	} {
		if at.Nanosecond() != 0 || at.IsZero() {
			t.Errorf("%s is %s, want whole seconds", name, at.Format(time.RFC3339Nano))
		}
	}
}
