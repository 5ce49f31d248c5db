package statusmgr

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/statusmgr/transition"
)

// prepare turns what the engine says into the wanted status. before is the
// wanted status until now, or what the API held at the first one; in is not
// changed and shares nothing with the result. An error refuses the status.
func prepare(pod *corev1.Pod, before, in *corev1.PodStatus, now time.Time) (*corev1.PodStatus, error) {
	if err := transition.Check(&pod.Spec, before, in); err != nil {
		return nil, err
	}
	s := in.DeepCopy()
	if terminal(before.Phase) && s.Phase != before.Phase {
		s.Phase, s.Reason, s.Message = before.Phase, before.Reason, before.Message
	}
	transition.KeepTerminated(before, s)
	boundStatus(&pod.Spec, s)
	s.Conditions = uniqueConditions(s.Conditions)

	switch {
	case !before.StartTime.IsZero():
		s.StartTime = before.StartTime.DeepCopy()
	case s.StartTime.IsZero():
		s.StartTime = &metav1.Time{Time: now}
	}
	// A pod object that was read earlier must not turn the generation back.
	s.ObservedGeneration = max(pod.Generation, before.ObservedGeneration)
	for i := range s.Conditions {
		c := &s.Conditions[i]
		c.LastTransitionTime = transitionTime(before.Conditions, c, now)
		observeGeneration(c, pod.Generation)
	}
	normalise(pod, s)
	return s, nil
}

// transitionTime is when c got the status it has: the time held for it before
// if that is the same status, else now. Whatever the engine wrote there does
// not count.
func transitionTime(before []corev1.PodCondition, c *corev1.PodCondition, now time.Time) metav1.Time {
	if old := findCondition(before, c.Type); old != nil && old.Status == c.Status && !old.LastTransitionTime.IsZero() {
		return old.LastTransitionTime
	}
	return metav1.Time{Time: now}
}

// observeGeneration says which generation of the pod c was made from. A resize
// in progress keeps the generation it began with, as the kubelet's does; the
// rest is computed anew each time.
func observeGeneration(c *corev1.PodCondition, generation int64) {
	switch c.Type {
	case corev1.PodResizePending, corev1.PodResizeInProgress:
		if c.ObservedGeneration != 0 {
			return
		}
	}
	c.ObservedGeneration = generation
}

// uniqueConditions keeps the last condition of each type. The API merges them
// by type; a second one would differ from it for ever.
func uniqueConditions(list []corev1.PodCondition) []corev1.PodCondition {
	out := make([]corev1.PodCondition, 0, len(list)) // it is kept: no room to grow
	for i := range list {
		if c := findCondition(out, list[i].Type); c != nil {
			*c = list[i]
			continue
		}
		out = append(out, list[i])
	}
	return out
}

// normalise gives s the form that the API stores, so that the two can be
// compared: times to the second (RFC 3339) and container statuses in the kubelet's
// order: init containers as the spec has them, unknown ones last; the others by name.
func normalise(pod *corev1.Pod, s *corev1.PodStatus) {
	seconds := func(t *metav1.Time) { *t = metav1.NewTime(t.Truncate(time.Second)) }
	if s.StartTime != nil {
		seconds(s.StartTime)
	}
	for i := range s.Conditions {
		seconds(&s.Conditions[i].LastProbeTime)
		seconds(&s.Conditions[i].LastTransitionTime)
	}
	state := func(c *corev1.ContainerState) {
		if c.Running != nil {
			seconds(&c.Running.StartedAt)
		}
		if c.Terminated != nil {
			seconds(&c.Terminated.StartedAt)
			seconds(&c.Terminated.FinishedAt)
		}
	}
	for _, list := range [][]corev1.ContainerStatus{
		s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses,
	} {
		for i := range list {
			state(&list[i].State)
			state(&list[i].LastTerminationState)
		}
	}
	sortStatuses(s.InitContainerStatuses, func(name string) int {
		return slices.IndexFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == name })
	})
	none := func(string) int { return -1 } // by name
	sortStatuses(s.ContainerStatuses, none)
	sortStatuses(s.EphemeralContainerStatuses, none)
}

func sortStatuses(list []corev1.ContainerStatus, index func(name string) int) {
	slices.SortStableFunc(list, func(a, b corev1.ContainerStatus) int {
		i, j := index(a.Name), index(b.Name)
		switch {
		case i >= 0 && j >= 0:
			return i - j
		case i >= 0:
			return -1
		case j >= 0:
			return 1
		default:
			return strings.Compare(a.Name, b.Name)
		}
	})
}

func findCondition(list []corev1.PodCondition, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range list {
		if list[i].Type == t {
			return &list[i]
		}
	}
	return nil
}

// binding is what the API holds of a pod and no status takes back. The end of a mirror pod
// is taken back: its static pod runs again with its node, as a kubelet's does.
func binding(api *corev1.Pod) *corev1.PodStatus {
	if _, mirror := api.Annotations[corev1.MirrorPodAnnotationKey]; !mirror || !terminal(api.Status.Phase) {
		return &api.Status
	}
	s := api.Status
	s.Phase, s.Reason, s.Message = corev1.PodPending, "", ""
	return &s
}

// terminal reports whether a pod of this phase has ended for good.
func terminal(p corev1.PodPhase) bool { return p == corev1.PodSucceeded || p == corev1.PodFailed }
