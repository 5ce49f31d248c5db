package plan

import (
	corev1 "k8s.io/api/core/v1"
)

// StartEvents are the Events "Started" of containers that a remote starts by itself: one
// for each that runs or ran and that neither this life of the process nor, as far as the
// status says, an earlier one has reported. It notes them as reported.
func (m *Memory) StartEvents(in *Input) []Event {
	if !in.PodUnit() {
		return nil // the action that starts a container records it
	}
	var events []Event
	for i := range in.Facts {
		for _, c := range in.Facts[i].Containers {
			if c.ID == "" || c.StartedAt.IsZero() || m.Started[c.ID] {
				continue
			}
			put(&m.Started, c.ID, true)
			if !hasStarted(&m.Status, c.Name, in.Runtime+"://"+c.ID) {
				events = append(events, Event{corev1.EventTypeNormal, "Started", "Container started", c.Name})
			}
		}
	}
	return events
}

// hasStarted is true where a status shows that attempt of a container.
func hasStarted(status *corev1.PodStatus, name, id string) bool {
	for _, list := range [][]corev1.ContainerStatus{
		status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses,
	} {
		for i := range list {
			if s := &list[i]; s.Name == name && (s.ContainerID == id || showsEnd(s, id)) {
				return true
			}
		}
	}
	return false
}
