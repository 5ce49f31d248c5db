package statusmgr

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/burstlet/burstlet/statusmgr/transition"
)

// A status that only tells how far a pod has come, and that nobody acts on, may
// wait for the one that follows it: most pods are up, or down, before that time
// is over, and one write tells all. The kubelet writes each step.
const (
	// calmFirst is for a pod that the API has heard nothing of: users wait for a
	// first sign of life. It is as long as a container takes on a quiet host.
	calmFirst = 250 * time.Millisecond
	calmLater = time.Second
)

// patience is how long want may wait where the API holds held; zero if it is to
// be written at once.
func patience(held, want *corev1.PodStatus) time.Duration {
	switch {
	case matters(held, want):
		return 0
	case held.StartTime == nil:
		return calmFirst
	default:
		return calmLater
	}
}

// matters reports whether somebody may act on the difference: a controller on
// phases, readiness and exits, a Service on readiness and the address that comes
// with it, a user on a container's state and on every message.
func matters(held, want *corev1.PodStatus) bool {
	switch {
	case want.Phase != held.Phase && (want.Phase != corev1.PodPending || held.Phase != ""),
		want.Reason != held.Reason, want.Message != held.Message,
		want.PodIP != held.PodIP && isTrue(want.Conditions, corev1.PodReady),
		conditionsMatter(held.Conditions, want.Conditions):
		return true
	}
	return containersMatter(held.InitContainerStatuses, want.InitContainerStatuses) ||
		containersMatter(held.ContainerStatuses, want.ContainerStatuses) ||
		containersMatter(held.EphemeralContainerStatuses, want.EphemeralContainerStatuses)
}

func isTrue(list []corev1.PodCondition, t corev1.PodConditionType) bool {
	c := findCondition(list, t)
	return c != nil && c.Status == corev1.ConditionTrue
}

// steps are the conditions that tell how far a pod has come.
var steps = []corev1.PodConditionType{
	corev1.PodScheduled, corev1.PodInitialized, corev1.PodReadyToStartContainers,
}

// conditionsMatter compares what the conditions of want say, but for the steps.
// One that is not there says as much as one that is False, without its reason.
func conditionsMatter(held, want []corev1.PodCondition) bool {
	for i := range want {
		w := &want[i]
		if slices.Contains(steps, w.Type) {
			continue
		}
		h := findCondition(held, w.Type)
		switch {
		case h == nil && w.Status != corev1.ConditionFalse, h != nil && h.Status != w.Status:
			return true
		case w.Type == corev1.PodReady, w.Type == corev1.ContainersReady:
			// Their reasons repeat what the containers' states say.
		case h == nil || h.Reason != w.Reason || h.Message != w.Message:
			return true
		}
	}
	return slices.ContainsFunc(held, func(h corev1.PodCondition) bool {
		return slices.Contains(ours, h.Type) && h.Status != corev1.ConditionFalse &&
			!slices.Contains(steps, h.Type) && findCondition(want, h.Type) == nil
	})
}

// containersMatter compares container statuses. One that is about to be made says
// as much as none.
func containersMatter(held, want []corev1.ContainerStatus) bool {
	for i := range want {
		h := transition.Of(held, want[i].Name)
		if beginning(&want[i]) && (h == nil || beginning(h)) {
			continue
		}
		if h == nil || !equality.Semantic.DeepEqual(h, &want[i]) {
			return true
		}
	}
	return len(held) > len(want)
}

// beginning is true for a container that waits for its first attempt, and for
// nothing else. The reasons are the kubelet's (kubelet_pods.go).
func beginning(s *corev1.ContainerStatus) bool {
	w := s.State.Waiting
	return w != nil && (w.Reason == "ContainerCreating" || w.Reason == "PodInitializing") &&
		w.Message == "" && s.RestartCount == 0 && s.LastTerminationState == (corev1.ContainerState{})
}
