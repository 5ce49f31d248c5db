package plan

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/allocation"
)

// The kubelet's reasons of Events about resizes (pkg/kubelet/events).
const (
	reasonResizeDeferred   = "ResizeDeferred"
	reasonResizeInfeasible = "ResizeInfeasible"
	ReasonResizeStarted    = "ResizeStarted"
	ReasonResizeCompleted  = "ResizeCompleted"
	reasonResizeError      = "ResizeError"
)

// Resize is what became of resources that a pod's spec asks for and that the pod
// is not allocated.
type Resize struct {
	// Wanted is the pod as the API has it.
	Wanted *corev1.Pod
	// Reason is Deferred or Infeasible, empty while it is not judged.
	Reason, Message string
}

// Resizing is a resize that was allocated and has not come to its end.
type Resizing struct {
	// Generation is that of the pod which asked for it.
	Generation int64
	// Reason is Error, and Message the last, once something failed.
	Reason, Message string
}

// Resized is what a container was last asked to be held to. Done is false while
// nobody knows whether it is.
type Resized struct {
	Resources corev1.ResourceRequirements
	Done      bool
}

// resize brings running containers to what they are allocated (kubelet:
// computePodResizeAction, doPodResizeAction), those first whose memory shrinks.
// The first that has to wait after a failure holds back the rest.
//
//	held to what is allocated                    nothing
//	another amount, resizePolicy NotRequired     resized in place
//	another amount, RestartContainer             ended and started again: terminations
//	nothing to do, but the pod's own cgroup      the first container again
//	differs though no resize is under way        resized in place, whatever the policy
//	does not run                                 started with what is allocated
func (v view) resize(p *Plan) {
	if !v.Resizes {
		return
	}
	running, lagging := v.resizable(), []podContainer(nil)
	ending := false
	for _, m := range running {
		if _, ends := p.Terminations[m.Name]; ends {
			ending = true
			continue
		}
		if v.lags(m, v.current(m.Name)) {
			lagging = append(lagging, m)
		}
	}
	if v.Memory.PodLags && len(lagging) == 0 && !ending && len(running) > 0 {
		lagging = running[:1]
	}
	if len(lagging) == 0 {
		p.Resized = v.Memory.Resizing != nil && !ending
		return
	}
	slices.SortStableFunc(lagging, func(a, b podContainer) int {
		return cmp.Compare(v.memoryGrowth(a), v.memoryGrowth(b))
	})
	for i, m := range lagging {
		action := v.resizeAction(m)
		action.Last = i == len(lagging)-1 && !ending
		if f, ok := v.Memory.Failures[action.key()]; ok && v.Now.Before(f.Until()) {
			p.Wake(f.Until())
			return
		}
		p.Actions = append(p.Actions, action)
	}
}

// memoryGrowth is by how much a container's memory limit is to grow, in bytes.
func (v view) memoryGrowth(m podContainer) int64 {
	want := v.effective(m)
	return want.Limits.Memory().Value() - v.heldTo(m, v.current(m.Name), want).Limits.Memory().Value()
}

func (v view) resizeAction(m podContainer) ResizeContainer {
	cur := v.current(m.Name)
	container := *m.Container
	container.Env, container.EnvFrom = nil, nil // they are not its business
	return ResizeContainer{Ref: cur.Ref(), Spec: backend.ContainerSpec{
		Pod: v.Pod, Container: container, Init: m.role.initial(), Attempt: cur.ContainerFacts.Attempt, Hash: cur.Hash,
	}}
}

// resizeRestarts is true for a running container that is to be resized in a
// resource for which it wants to be restarted.
func (v view) resizeRestarts(m podContainer, cur *ContainerAttempt) bool {
	if !v.Resizes || v.Memory.Resizing == nil || len(m.ResizePolicy) == 0 || !v.inSandbox(cur) || !v.lags(m, cur) {
		return false
	}
	effective := v.effective(m)
	held := v.heldTo(m, cur, effective)
	for _, x := range allocation.Amounts() {
		want, wanted := x.Of(effective)
		has, had := x.Of(held)
		if wanted == had && (!wanted || want.Cmp(has) == 0) {
			continue
		}
		if slices.ContainsFunc(m.ResizePolicy, func(r corev1.ContainerResizePolicy) bool {
			return r.ResourceName == x.Name && r.RestartPolicy == corev1.RestartContainer
		}) {
			return true
		}
	}
	return false
}

// effective is what a container is allocated with the limits of its pod, where it has
// none: a resize of the pod is one of such a container (kubelet:
// containerResourcesFromRequirements). Mostly it is &m.Resources itself.
func (v view) effective(m podContainer) *corev1.ResourceRequirements {
	return backend.WithPodLimits(v.Pod, &m.Resources)
}

// heldTo is what a running container is held to, as far as that is known:
//
//	facts say it             that; what the kernel cannot tell apart counts as allocated
//	resized by us            what it was resized to
//	shown in the status      as shown; its pod's limits, which no status shows, as allocated
//	just started             what is allocated
//
// It is effective itself, what the container is to be held to, where that is all of it.
func (v view) heldTo(
	m podContainer, cur *ContainerAttempt, effective *corev1.ResourceRequirements,
) *corev1.ResourceRequirements {
	base := effective
	prior := v.prior(m)
	if prior != nil && prior.Resources != nil && cur.ID != "" && strings.HasSuffix(prior.ContainerID, cur.ID) {
		base = backend.WithPodLimits(v.Pod, prior.Resources)
	}
	if asked, ok := v.Memory.Resized[cur.ID]; ok && asked.Done {
		base = &asked.Resources
	}
	return allocation.Held(base, cur.Resources, effective)
}

// lags is true while a running container is not held to what it is allocated, for
// all that is known.
func (v view) lags(m podContainer, cur *ContainerAttempt) bool {
	effective := v.effective(m)
	if asked, ok := v.Memory.Resized[cur.ID]; ok {
		return !asked.Done || !allocation.Equal(&asked.Resources, effective)
	}
	return v.heldTo(m, cur, effective) != effective
}

// resizable are the containers that run in the live sandbox.
func (v view) resizable() []podContainer {
	var all []podContainer
	for _, list := range [][]podContainer{v.inits, v.apps} {
		for _, m := range list {
			if cur := v.current(m.Name); cur != nil && cur.State() == backend.Running && v.inSandbox(cur) {
				all = append(all, m)
			}
		}
	}
	return all
}

// resizeConditions are PodResizePending and PodResizeInProgress (kubelet:
// determinePodResizeStatus); a pod that has ended has neither.
func (v view) resizeConditions(p *Plan, s *corev1.PodStatus) []corev1.PodCondition {
	if Terminal(s.Phase) {
		return nil
	}
	var all []corev1.PodCondition
	if r := v.Resize; r != nil && r.Reason != "" {
		c := condition(corev1.PodResizePending, true)
		c.Reason, c.Message, c.ObservedGeneration = r.Reason, r.Message, v.Pod.Generation
		all = append(all, c)
	}
	if r := v.Memory.Resizing; r != nil && !p.Resized {
		c := condition(corev1.PodResizeInProgress, true)
		c.Reason, c.Message, c.ObservedGeneration = r.Reason, r.Message, r.Generation
		all = append(all, c)
	}
	return all
}

// ResizeEvents are the Events for a change of status: a resize that waits for another
// reason or generation than before, one that failed in another way.
func ResizeEvents(pod *corev1.Pod, wanted *Resize, old, now *corev1.PodStatus) []Event {
	var events []Event
	was, is := TrueCondition(old, corev1.PodResizePending), TrueCondition(now, corev1.PodResizePending)
	if is != nil && wanted != nil &&
		(was == nil || was.Reason != is.Reason || was.ObservedGeneration != is.ObservedGeneration) {
		reason := reasonResizeDeferred
		if is.Reason == corev1.PodReasonInfeasible {
			reason = reasonResizeInfeasible
		}
		events = append(events, Event{
			Kind: corev1.EventTypeWarning, Reason: reason,
			Message: "Pod resize " + is.Reason + ": " + ResizeSummary(wanted.Wanted, is.ObservedGeneration, is.Message),
		})
	}
	was, is = TrueCondition(old, corev1.PodResizeInProgress), TrueCondition(now, corev1.PodResizeInProgress)
	if is != nil && is.Reason == corev1.PodReasonError &&
		(was == nil || was.Reason != is.Reason || was.Message != is.Message) {
		events = append(events, Event{
			Kind: corev1.EventTypeWarning, Reason: reasonResizeError,
			Message: "Pod resize error: " + ResizeSummary(pod, is.ObservedGeneration, is.Message),
		})
	}
	return events
}

// TrueCondition finds a condition that is True; nil for none.
func TrueCondition(s *corev1.PodStatus, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == t && s.Conditions[i].Status == corev1.ConditionTrue {
			return &s.Conditions[i]
		}
	}
	return nil
}

// ResizeSummary is the kubelet's, of what the pod asks for (events.podResourceSummary).
func ResizeSummary(pod *corev1.Pod, generation int64, problem string) string {
	type resized struct {
		Name      string                      `json:"name"`
		Resources corev1.ResourceRequirements `json:"resources,omitempty"`
	}
	summary := struct {
		Inits      []resized `json:"initContainers,omitempty"`
		Apps       []resized `json:"containers,omitempty"`
		Generation int64     `json:"generation"`
		Error      string    `json:"error,omitempty"`
	}{Generation: generation, Error: problem}
	for i := range pod.Spec.InitContainers {
		summary.Inits = append(summary.Inits, resized{pod.Spec.InitContainers[i].Name, pod.Spec.InitContainers[i].Resources})
	}
	for i := range pod.Spec.Containers {
		summary.Apps = append(summary.Apps, resized{pod.Spec.Containers[i].Name, pod.Spec.Containers[i].Resources})
	}
	text, err := json.Marshal(summary)
	if err != nil {
		return problem
	}
	return string(text)
}

// resources fills in the resources of the container (kubelet:
// convertContainerStatusResources): those it is allocated, and those that it is
// held to while it runs. One without any says so only where others may be added.
func (v view) resources(s *corev1.ContainerStatus, m podContainer) {
	resources, cur := &m.Resources, v.current(m.Name)
	if v.Resizes && s.State.Running != nil && cur != nil {
		resources = allocation.Own(v.heldTo(m, cur, v.effective(m)), &m.Resources)
	}
	if len(m.Resources.Requests)+len(m.Resources.Limits) == 0 && v.Resize == nil && cur == nil && !ran(v.prior(m)) {
		return // a kubelet says so of what was not made whatever it asks for; here no other place keeps what was allocated
	}
	s.Resources, s.AllocatedResources = resources, m.Resources.Requests
}
