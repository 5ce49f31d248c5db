package plan

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

const (
	// reasonOOMKilled is the kubelet's word for the end of a container, reasonOOM that
	// of node-problem-detector for the Event.
	reasonOOMKilled = "OOMKilled"
	reasonOOM       = "OOMKilling"
)

// OOMEvents are the Events about containers that were killed for memory, from the status
// before and the status now. Each attempt is reported when it first appears in a status:
// after a restart of this process the status before is what the API holds.
func OOMEvents(pod *corev1.Pod, before, now *corev1.PodStatus) []Event {
	lists := func(s *corev1.PodStatus) [3][]corev1.ContainerStatus {
		return [...][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses}
	}
	var events []Event
	old := lists(before)
	for i, list := range lists(now) {
		for j := range list {
			for range newOOMs(old[i], &list[j]) {
				events = append(events, Event{corev1.EventTypeWarning, reasonOOM, oomMessage(pod, list[j].Name), list[j].Name})
			}
		}
	}
	return events
}

// newOOMs counts the OOM kills of a container that the earlier statuses do not show.
// Ends before one that they do show are not new, though they may not be shown any more.
func newOOMs(before []corev1.ContainerStatus, now *corev1.ContainerStatus) (n int) {
	for _, end := range []*corev1.ContainerStateTerminated{now.State.Terminated, now.LastTerminationState.Terminated} {
		if end == nil {
			continue
		}
		if slices.ContainsFunc(before, func(s corev1.ContainerStatus) bool {
			return s.Name == now.Name && showsEnd(&s, end.ContainerID)
		}) {
			break
		}
		if end.Reason == reasonOOMKilled {
			n++
		}
	}
	return n
}

// showsEnd is true where a status has the end of that attempt.
func showsEnd(s *corev1.ContainerStatus, id string) bool {
	for _, end := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
		if end != nil && end.ContainerID == id {
			return true
		}
	}
	return false
}

func oomMessage(pod *corev1.Pod, name string) string {
	if limit, ok := memoryLimit(pod, name); ok {
		return fmt.Sprintf("Container %s was killed because it used more memory than its limit of %s: "+
			"raise the limit (resources.limits.memory) or make it use less.", name, limit)
	}
	if r := pod.Spec.Resources; r != nil {
		if limit, ok := r.Limits[corev1.ResourceMemory]; ok {
			return fmt.Sprintf("Container %s was killed because its pod used more memory than the pod's limit of %s: "+
				"raise the limit (spec.resources.limits.memory) or make it use less.", name, limit.String())
		}
	}
	return fmt.Sprintf("Container %s, which has no memory limit, was killed because its host ran out of memory: "+
		"give the pods of this node memory requests and limits, or the node more memory.", name)
}

// memoryLimit is that of a container of whatever kind.
func memoryLimit(pod *corev1.Pod, name string) (string, bool) {
	m := containersOf(pod).named(name)
	if m == nil {
		return "", false
	}
	limit, ok := m.Resources.Limits[corev1.ResourceMemory]
	return limit.String(), ok
}
