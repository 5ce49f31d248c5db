package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// status computes what the pod is from the facts, its spec and what was
// reported before. It is the only place where phase and conditions are made.
func (v view) status(p *Plan) corev1.PodStatus {
	old := &v.Memory.Status
	s := corev1.PodStatus{
		QOSClass: old.QOSClass, NominatedNodeName: old.NominatedNodeName,
		Reason: old.Reason, Message: old.Message, StartTime: old.StartTime,
		ObservedGeneration: v.Pod.Generation,
		PodIP:              old.PodIP, PodIPs: old.PodIPs, HostIP: old.HostIP, HostIPs: old.HostIPs,
		ResourceClaimStatuses: old.ResourceClaimStatuses,
		Phase:                 old.Phase,
	}
	if s.StartTime == nil {
		s.StartTime = &metav1.Time{Time: v.Now}
	}
	switch inAPI := &v.Pod.Status; {
	case Terminal(old.Phase):
	case Terminal(inAPI.Phase):
		s.Reason, s.Message = inAPI.Reason, inAPI.Message
	case p.Termination != nil && p.Termination.Phase != "":
		s.Reason, s.Message = p.Termination.Reason, p.Termination.Message
	}
	if p.Refused || old.Phase == corev1.PodFailed && len(old.ContainerStatuses) == 0 && v.newest == nil {
		s.Phase = corev1.PodFailed // a refused pod has no containers to show
		return s
	}
	v.addresses(&s)
	s.InitContainerStatuses = v.containerStatuses(p, v.inits)
	s.ContainerStatuses = v.containerStatuses(p, v.apps)
	s.EphemeralContainerStatuses = v.containerStatuses(p, v.ephemerals)
	s.Phase = v.phase(p, &s)
	v.podResources(&s)
	s.Conditions = v.conditions(p, &s)
	if p.Termination != nil && !p.CouldRun {
		v.endNeverStarted(&s)
	}
	sortByName(s.ContainerStatuses)
	sortByName(s.EphemeralContainerStatuses)
	return s
}

// sortByName puts statuses in the kubelet's order (SortedContainerStatuses); those of
// init containers stay in the order of the spec.
func sortByName(statuses []corev1.ContainerStatus) {
	slices.SortFunc(statuses, func(a, b corev1.ContainerStatus) int { return strings.Compare(a.Name, b.Name) })
}

// addresses fills the pod's and its host's; those of a pod that ended stay. Where all pods
// of the node have one host, that is known from the first status on, as a kubelet's is.
func (v view) addresses(s *corev1.PodStatus) {
	var hosts, ips []string
	if !v.PodUnit() {
		hosts = v.HostIPs
	}
	if v.newest != nil {
		if len(v.newest.HostIPs) > 0 {
			hosts = v.newest.HostIPs
		}
		ips = v.newest.IPs
	}
	if len(hosts) > 0 && (v.newest != nil || s.HostIP == "") {
		s.HostIP, s.HostIPs = hosts[0], nil
		for _, ip := range hosts {
			s.HostIPs = append(s.HostIPs, corev1.HostIP{IP: ip})
		}
		if v.Pod.Spec.HostNetwork {
			ips = hosts
		}
	}
	if len(ips) > 0 {
		s.PodIP, s.PodIPs = ips[0], nil
		for _, ip := range ips {
			s.PodIPs = append(s.PodIPs, corev1.PodIP{IP: ip})
		}
	}
}

// phase is the kubelet's getPhase:
//
//	terminal before               as before
//	terminal in the API           as there
//	an order decided (deadline)   Failed
//	ending, nothing runs          Succeeded if all app containers ended 0, else Failed
//	init not done                 Pending (Failed if it never will be)
//	some container never ran      Pending
//	some container runs           Running
//	all ended, some restart       Running
//	all ended for good            Succeeded if all ended 0, else Failed
func (v view) phase(p *Plan, s *corev1.PodStatus) corev1.PodPhase {
	if Terminal(v.Memory.Status.Phase) {
		return v.Memory.Status.Phase
	}
	if Terminal(v.Pod.Status.Phase) {
		return v.Pod.Status.Phase
	}
	if p.Termination != nil {
		switch {
		case p.Termination.Phase != "":
			return p.Termination.Phase
		case !v.running() && succeeded(s):
			return corev1.PodSucceeded
		case !v.running():
			return corev1.PodFailed
		}
	}
	if len(v.uninitialised(s)) > 0 && !startedStatus(s) {
		return corev1.PodPending
	}
	for _, c := range s.ContainerStatuses {
		if c.State.Waiting != nil && c.LastTerminationState.Terminated == nil {
			return corev1.PodPending
		}
	}
	return corev1.PodRunning
}

// succeeded is true when all app containers ended with 0, and there are any.
func succeeded(s *corev1.PodStatus) bool {
	return len(s.ContainerStatuses) > 0 && !slices.ContainsFunc(s.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Terminated == nil || c.State.Terminated.ExitCode != 0
	})
}

// uninitialised are the init containers that hold the pod back: those that have
// not ended with 0, and sidecars that have not started.
func (v view) uninitialised(s *corev1.PodStatus) []string {
	var names []string
	for i, c := range s.InitContainerStatuses {
		done := c.Ready
		if v.inits[i].role == sidecarRole {
			done = c.Started != nil && *c.Started
		}
		if !done {
			names = append(names, c.Name)
		}
	}
	return names
}

// startedStatus is true when an app container was started.
func startedStatus(s *corev1.PodStatus) bool {
	return slices.ContainsFunc(s.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Running != nil || c.State.Terminated != nil
	})
}

// conditions are those that a kubelet owns; the others are not ours to write.
// PodScheduled is among them: a pod that names its node has none, and the
// scheduler's word about a pod that is gone may hit its successor (it patches by
// name).
func (v view) conditions(p *Plan, s *corev1.PodStatus) []corev1.PodCondition {
	ready := v.containersReady(s)
	own := append(make([]corev1.PodCondition, 0, 5), // for most that is all, for long
		v.readyToStart(s), v.initialisedCondition(s), ready, condition(corev1.PodScheduled, true), v.ready(ready))
	own = append(own, v.resizeConditions(p, s)...)
	own = append(own, v.awaitingCapacity(p)...)
	own = append(own, v.restartingAllCondition(p, s)...)
	if p.Termination != nil && p.Termination.Disrupted {
		c := condition(corev1.DisruptionTarget, true)
		c.Reason, c.Message = corev1.PodReasonTerminationByKubelet, cmp.Or(p.Termination.Disruption, p.Termination.Message)
		own = append(own, c)
	}
	for i := range own {
		c := &own[i]
		if c.ObservedGeneration == 0 { // a resize keeps the one that asked for it
			c.ObservedGeneration = v.Pod.Generation
		}
		c.LastTransitionTime = metav1.Time{Time: v.Now}
		for _, old := range v.Memory.Status.Conditions {
			if old.Type == c.Type && old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
		}
	}
	return own
}

func condition(t corev1.PodConditionType, ok bool) corev1.PodCondition {
	status := corev1.ConditionFalse
	if ok {
		status = corev1.ConditionTrue
	}
	return corev1.PodCondition{Type: t, Status: status}
}

// readyToStart is true while there is a sandbox with its network, and the pod has not ended.
func (v view) readyToStart(s *corev1.PodStatus) corev1.PodCondition {
	sandbox, ended := v.sandbox(), Terminal(s.Phase) && !v.running()
	return condition(corev1.PodReadyToStartContainers,
		sandbox != nil && !ended && (len(sandbox.IPs) > 0 || v.Pod.Spec.HostNetwork))
}

func (v view) initialisedCondition(s *corev1.PodStatus) corev1.PodCondition {
	if s.Phase == corev1.PodSucceeded {
		c := condition(corev1.PodInitialized, true)
		c.Reason = "PodCompleted"
		return c
	}
	missing := v.uninitialised(s)
	// What was initialised once stays so while init containers run again.
	was := TrueCondition(&v.Memory.Status, corev1.PodInitialized) != nil
	c := condition(corev1.PodInitialized, len(missing) == 0 || was || startedStatus(s))
	if c.Status == corev1.ConditionFalse {
		c.Reason, c.Message = "ContainersNotInitialized",
			"containers with incomplete status: ["+strings.Join(missing, " ")+"]"
	}
	return c
}

// containersReady counts the sidecars too.
func (v view) containersReady(s *corev1.PodStatus) corev1.PodCondition {
	switch s.Phase {
	case corev1.PodSucceeded:
		c := condition(corev1.ContainersReady, false)
		c.Reason = "PodCompleted"
		return c
	case corev1.PodFailed:
		c := condition(corev1.ContainersReady, false)
		c.Reason = "PodFailed"
		return c
	}
	var missing []string
	for i, c := range s.InitContainerStatuses {
		if v.inits[i].role == sidecarRole && !c.Ready {
			missing = append(missing, c.Name)
		}
	}
	missing = append(missing, unready(s.ContainerStatuses)...)
	c := condition(corev1.ContainersReady, len(missing) == 0 && len(s.ContainerStatuses) > 0)
	if c.Status == corev1.ConditionFalse {
		c.Reason, c.Message = "ContainersNotReady",
			"containers with unready status: ["+strings.Join(missing, " ")+"]"
	}
	return c
}

// unready are the names of containers that are not ready.
func unready(statuses []corev1.ContainerStatus) []string {
	var names []string
	for _, c := range statuses {
		if !c.Ready {
			names = append(names, c.Name)
		}
	}
	return names
}

// ready is ContainersReady and every readiness gate.
func (v view) ready(containers corev1.PodCondition) corev1.PodCondition {
	c := containers
	c.Type = corev1.PodReady
	if c.Status == corev1.ConditionFalse {
		return c
	}
	var missing []string
	for _, gate := range v.Pod.Spec.ReadinessGates {
		has := slices.IndexFunc(
			v.Pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == gate.ConditionType },
		)
		switch {
		case has < 0:
			missing = append(
				missing, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType),
			)
		case v.Pod.Status.Conditions[has].Status != corev1.ConditionTrue:
			missing = append(missing, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v",
				gate.ConditionType, v.Pod.Status.Conditions[has].Status))
		}
	}
	if len(missing) > 0 {
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, "ReadinessGatesNotReady", strings.Join(missing, ", ")
	}
	return c
}
