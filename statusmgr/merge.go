package statusmgr

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// The kubelet's reasons for Ready and ContainersReady of a pod that has ended
// (pkg/kubelet/status/generate.go).
const (
	reasonPodCompleted = "PodCompleted"
	reasonPodFailed    = "PodFailed"
)

// ours are the conditions that nobody else writes: one that the wanted status
// lacks is removed from the API. The kubelet's list (pkg/kubelet/types/
// pod_status.go) has PodScheduled too; here the scheduler's word stands where
// the engine gives none, as for a pod that it refuses.
var ours = []corev1.PodConditionType{
	corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodReadyToStartContainers,
	corev1.PodResizePending, corev1.PodResizeInProgress, corev1.AllContainersRestarting,
	AwaitingCapacity,
}

// AwaitingCapacity is True while the remote has no room for the pod. The engine
// writes it under the same name; it is ours, so that it goes once the engine drops it.
const AwaitingCapacity corev1.PodConditionType = "burstlet.dev/AwaitingCapacity"

// merge lays want over the status that the API holds and returns what the API
// should hold. With mayRun a terminal phase is held back. It changes neither
// argument; the result shares their parts and must only be read.
func merge(held, want *corev1.PodStatus, mayRun bool, now time.Time) (merged *corev1.PodStatus, heldBack bool) {
	m := *want
	switch {
	case terminal(held.Phase):
		if m.Phase != held.Phase {
			m.Phase, m.Reason, m.Message = held.Phase, held.Reason, held.Message
		}
	case terminal(want.Phase) && mayRun:
		heldBack = true
		m.Phase, m.Reason, m.Message = held.Phase, held.Reason, held.Message
		if m.Phase == "" {
			m.Phase = corev1.PodPending
		}
	}
	if held.QOSClass != "" { // immutable once set
		m.QOSClass = held.QOSClass
	}
	m.ObservedGeneration = max(want.ObservedGeneration, held.ObservedGeneration)
	// Written by others and by them alone.
	m.NominatedNodeName = held.NominatedNodeName
	m.ResourceClaimStatuses = held.ResourceClaimStatuses
	m.ExtendedResourceClaimStatus = held.ExtendedResourceClaimStatus
	m.NodeAllocatableResourceClaimStatuses = held.NodeAllocatableResourceClaimStatuses
	m.Conditions = mergeConditions(held.Conditions, want.Conditions, m.Phase, now)
	if terminal(m.Phase) {
		m.Conditions = endReadiness(m.Conditions, held.Conditions, &m, now)
	}
	return &m, heldBack
}

// mergeConditions keeps the API's order, so that an equal set is an equal list.
func mergeConditions(held, want []corev1.PodCondition, phase corev1.PodPhase, now time.Time) []corev1.PodCondition {
	out := make([]corev1.PodCondition, 0, len(held)+len(want))
	for i := range held {
		w := findCondition(want, held[i].Type)
		switch {
		case w != nil && sendable(w, phase):
			out = append(out, condition(w, held, now))
		case !slices.Contains(ours, held[i].Type):
			out = append(out, held[i])
		}
	}
	for i := range want {
		if findCondition(out, want[i].Type) == nil && sendable(&want[i], phase) {
			out = append(out, condition(&want[i], held, now))
		}
	}
	return out
}

// sendable holds DisruptionTarget back until the phase it explains is sent. Job
// controllers read the two together, and others write it as well.
func sendable(c *corev1.PodCondition, phase corev1.PodPhase) bool {
	return c.Type != corev1.DisruptionTarget || terminal(phase)
}

// condition is c as it is sent. The time of one that was held back is that of
// its sending.
func condition(c *corev1.PodCondition, held []corev1.PodCondition, now time.Time) corev1.PodCondition {
	out := *c
	if c.Type == corev1.DisruptionTarget {
		out.LastTransitionTime = wholeSeconds(transitionTime(held, c, now))
	}
	return out
}

// endReadiness makes Ready and ContainersReady False for a pod that has ended,
// where the pod has them at all, so that no write shows an ended pod as ready.
func endReadiness(list, held []corev1.PodCondition, s *corev1.PodStatus, now time.Time) []corev1.PodCondition {
	reason := reasonPodCompleted
	if s.Phase == corev1.PodFailed {
		reason = reasonPodFailed
	}
	for _, t := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		have := findCondition(list, t)
		if have != nil && have.Status == corev1.ConditionFalse {
			continue
		}
		if have == nil && findCondition(held, t) == nil {
			continue
		}
		end := corev1.PodCondition{
			Type: t, Status: corev1.ConditionFalse, Reason: reason, ObservedGeneration: s.ObservedGeneration,
		}
		end.LastTransitionTime = wholeSeconds(transitionTime(held, &end, now))
		if have != nil {
			*have = end
		} else {
			list = append(list, end)
		}
	}
	return list
}

func wholeSeconds(t metav1.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

// sameStatus reports whether the API's object holds exactly s, times to the
// second and lists in the kubelet's order.
func sameStatus(api *corev1.Pod, s *corev1.PodStatus) bool {
	if equality.Semantic.DeepEqual(&api.Status, s) {
		return true
	}
	held := api.Status.DeepCopy()
	normalise(api, held)
	return equality.Semantic.DeepEqual(held, s)
}

// statusPatch is the strategic merge patch of the status that turns what api
// holds into s; nil when there is nothing to change. It carries the UID, so that
// the API refuses it for a successor of the same name, and the resourceVersion,
// so that only the object that was looked at is changed: a phase that somebody
// else made terminal stays, and a pod that is being deleted by force meanwhile is
// left alone (see condemned). The kubelet sends the UID alone.
func statusPatch(api *corev1.Pod, s *corev1.PodStatus) ([]byte, error) {
	from, err := json.Marshal(corev1.Pod{Status: api.Status})
	if err != nil {
		return nil, fmt.Errorf("encode held status: %w", err)
	}
	to, err := json.Marshal(corev1.Pod{Status: *s})
	if err != nil {
		return nil, fmt.Errorf("encode wanted status: %w", err)
	}
	diff, err := strategicpatch.CreateTwoWayMergePatch(from, to, corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("compute status patch: %w", err)
	}
	var patch struct {
		Metadata patchMeta       `json:"metadata"`
		Status   json.RawMessage `json:"status,omitempty"`
	}
	if err := json.Unmarshal(diff, &patch); err != nil {
		return nil, fmt.Errorf("decode status patch: %w", err)
	}
	if len(patch.Status) == 0 {
		return nil, nil
	}
	patch.Metadata = patchMeta{UID: api.UID, ResourceVersion: api.ResourceVersion}
	return json.Marshal(patch)
}

type patchMeta struct {
	UID             types.UID `json:"uid"`
	ResourceVersion string    `json:"resourceVersion,omitempty"`
}
