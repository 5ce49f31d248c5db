package plan

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/eviction"
	"github.com/burstlet/burstlet/syncloop/images"
)

const (
	// leastGrace is what the end of a pod takes at least, so that its preStop hooks
	// run, and what an orphan gets (kubelet: calculateEffectiveGracePeriod,
	// SyncTerminatingRuntimePod).
	leastGrace = time.Second
	// MinGrace is the least that a container gets to end by itself, whatever the order
	// and however long its preStop hook took (kubelet: minimumGracePeriodInSeconds).
	MinGrace = 2 * time.Second
)

// Reasons in pod status that this package gives.
const (
	ReasonDeadlineExceeded = "DeadlineExceeded"
	ReasonInvalid          = "InvalidPod"
)

// Decide says what to do with one pod. It is pure and total.
func Decide(in Input) Plan {
	v := newView(&in)
	p := Plan{Termination: Merge(in.Memory.Termination, v.ordered())}
	if p.Termination == nil {
		v.sync(&p)
	}
	if p.Termination != nil {
		if v.disrupted() && p.Termination.Disrupted && !Terminal(v.Memory.Status.Phase) {
			p.record(corev1.EventTypeWarning, p.Termination.Reason, p.Termination.Message)
		}
		p.Actions, p.Hooks, p.Terminations = nil, nil, nil
		v.end(&p)
	}
	v.couldRun(&p)
	p.Probes = v.probes(&p)
	if in.Pod != nil {
		v.recordVerdicts(&p)
		p.Status = v.status(&p)
	}
	return p
}

// Ordered is the order to end the pod that its state in the API gives, or the node;
// nil for none.
func Ordered(in *Input) *TerminationOrder { return newView(in).ordered() }

// ordered is the order to end the pod that its state in the API gives, or the
// node.
//
//	gone from the API             all of it, within its grace
//	deletionTimestamp             all of it, within the grace of the request
//	phase Failed or Succeeded,    what still runs; the rest stays for its logs
//	whoever set it                (unless its host needs the room)
//	its host has evicted it       Failed, Evicted
//	activeDeadlineSeconds passed  Failed, DeadlineExceeded
//	the remote takes it back      Failed, by the remote's reason (DisruptionTarget)
//	the node shuts down           Failed, Terminated
func (v view) ordered() *TerminationOrder {
	if v.Pod == nil {
		return &TerminationOrder{Deadline: v.Now.Add(leastGrace), Gone: true}
	}
	spec, order := &v.Pod.Spec, Merge(v.Order, v.evicted())
	grace := max(leastGrace, v.grace())
	switch {
	case v.Removed || v.Pod.DeletionTimestamp != nil:
		grace = max(MinGrace, seconds(v.Pod.DeletionGracePeriodSeconds, int64(grace/time.Second)))
		return Merge(&TerminationOrder{Deadline: v.Now.Add(grace), Gone: true}, order)
	case v.hasEnded():
		return &TerminationOrder{Deadline: v.Now.Add(grace), Discard: order != nil && order.Discard}
	case Evicted(v.Facts) != nil:
		return order
	}
	if start := v.Memory.Status.StartTime; spec.ActiveDeadlineSeconds != nil && start != nil &&
		!v.Now.Before(start.Add(seconds(spec.ActiveDeadlineSeconds, 0))) {
		return &TerminationOrder{
			Deadline: v.Now.Add(grace), Phase: corev1.PodFailed, Reason: ReasonDeadlineExceeded,
			Message: "Pod was active on the node longer than the specified deadline",
		}
	}
	if v.disrupted() {
		return Merge(&TerminationOrder{
			Deadline: v.Now.Add(grace), Phase: corev1.PodFailed, Disrupted: true,
			Reason: v.newest.Reason, Message: v.newest.Message,
		}, v.Order)
	}
	return v.Order
}

// Evicted is the record of the pod's host that it evicts the pod; nil for none.
func Evicted(facts []backend.PodFacts) *backend.Eviction {
	for i := range facts {
		if e := facts[i].Evicted; e != nil {
			return e
		}
	}
	return nil
}

// evicted is the order that follows from the host's record; nil for none. The record goes
// with what the pod has there, so that stays until the API has the outcome: whoever comes
// after a crash would start the pod again.
func (v view) evicted() *TerminationOrder {
	e := Evicted(v.Facts)
	if e == nil {
		return nil
	}
	return &TerminationOrder{
		Deadline: v.Now.Add(leastGrace), Phase: corev1.PodFailed, Reason: eviction.Reason, Message: e.Message,
		Discard: Terminal(v.Pod.Status.Phase),
	}
}

// Merge keeps the earliest deadline and the first outcome of two orders.
func Merge(a, b *TerminationOrder) *TerminationOrder {
	if a == nil || b == nil {
		if a == nil {
			return b
		}
		return a
	}
	m := *a
	m.Gone, m.Discard = a.Gone || b.Gone, a.Discard || b.Discard
	if b.Deadline.Before(m.Deadline) {
		m.Deadline = b.Deadline
	}
	if m.Phase == "" {
		m.Phase, m.Reason, m.Message = b.Phase, b.Reason, b.Message
		m.Disrupted, m.Disruption = b.Disrupted, b.Disruption
	}
	return &m
}

// sync plans towards a running pod, or finds that it has ended.
func (v view) sync(p *Plan) {
	if d := v.Pod.Spec.ActiveDeadlineSeconds; d != nil && v.Memory.Status.StartTime != nil {
		p.Wake(v.Memory.Status.StartTime.Add(seconds(d, 0)))
	}
	if v.refused(p) {
		return
	}
	if f, never := v.Memory.RefusedLaunch(v.Traits); never {
		if v.Now.Before(v.RefuseAt) {
			p.Wake(v.RefuseAt)
			return
		}
		p.Termination = &TerminationOrder{Deadline: v.Now, Phase: corev1.PodFailed, Reason: f.Reason, Message: f.Message}
		return
	}
	if v.PodUnit() {
		v.syncTask(p)
	} else {
		v.syncSandbox(p)
	}
	v.collect(p)
}

// refused holds back or fails a pod that the node does not admit; the user is
// told by an Event at once. One that was started by an earlier life of this process is not
// judged again.
func (v view) refused(p *Plan) bool {
	if v.Rejection == nil || v.newest != nil || v.everRan() {
		return false
	}
	p.record(corev1.EventTypeWarning, v.Rejection.Reason, v.Rejection.Message)
	if v.Now.Before(v.RefuseAt) {
		p.Wake(v.RefuseAt)
		return true
	}
	p.Refused = true
	p.Termination = &TerminationOrder{
		Deadline: v.Now, Phase: corev1.PodFailed, Reason: v.Rejection.Reason, Message: v.Rejection.StatusMessage(),
	}
	return true
}

// syncSandbox is for backends that start single containers: a live sandbox,
// then the init containers in order, then the rest.
func (v view) syncSandbox(p *Plan) {
	initialised, failed := v.initialised()
	if failed || initialised && v.allDone() {
		p.Termination = &TerminationOrder{Deadline: v.Now}
		if v.running() { // sidecars
			p.Termination.Deadline = v.Now.Add(v.grace())
		}
		return
	}
	if v.sandbox() == nil && v.newest != nil && v.attemptRuns(v.newest) {
		v.endDeadSandbox(p)
		return
	}
	placed := v.placed(p)
	if v.sandbox() == nil && (!placed || !v.launch(p)) {
		return
	}
	v.terminations(p)
	if v.endRound(p) {
		return
	}
	v.postStarts(p)
	if placed { // a sandbox may have been made beside volumes that could not be
		v.startContainers(p, initialised)
	}
	v.resize(p)
}

// endDeadSandbox ends the containers of an attempt whose sandbox died under them, as
// any other end does, so that the next attempt can follow. The order keeps its deadline.
func (v view) endDeadSandbox(p *Plan) {
	id := attemptID(v.newest)
	order := v.Memory.Terminations[podKey]
	if order.ID != id || order.Deadline.IsZero() {
		order = ContainerTermination{ID: id, Deadline: v.Now.Add(v.grace())}
	}
	p.terminate(podKey, order)
	if v.hasSidecar() || v.hasPreStop() {
		v.stopInOrder(p, v.newest, order.Deadline)
		return
	}
	v.stop(p, v.newest, order.Deadline)
}

// startContainers starts those whose turn has come.
func (v view) startContainers(p *Plan, initialised bool) {
	for _, m := range v.ephemerals {
		if s := v.stepEphemeral(m); s.verb == start {
			v.start(p, m, s)
		}
	}
	if v.startInits(p, initialised); initialised {
		v.startApps(p)
	}
}

// startApps starts app containers in their order; each waits for the postStart
// hooks of those before it.
func (v view) startApps(p *Plan) {
	for _, m := range v.apps {
		if s := v.step(m); s.verb == start {
			if v.start(p, m, s); postStart(m.Container) != nil {
				return
			}
		}
		if cur := v.current(m.Name); cur != nil && cur.State() == backend.Running &&
			!v.postStarted(m, cur) && !v.Memory.Hooks[hookKey(m, cur, PostStart)].Failed {
			return
		}
	}
}

// networkRetry is how often a pod checks whether the network is ready.
const networkRetry = time.Second

// launch plans the next attempt, unless an earlier failure says to wait.
func (v view) launch(p *Plan) bool {
	if v.backsOff(p) {
		return false
	}
	if v.NetworkProblem != "" && !v.Pod.Spec.HostNetwork {
		p.record(corev1.EventTypeWarning, reasonNetworkNotReady, "network is not ready: "+v.NetworkProblem)
		p.Wake(v.Now.Add(networkRetry))
		return false
	}
	handler, known := v.runtimeHandler(p)
	if !known {
		return false
	}
	launch := Launch{Spec: backend.LaunchSpec{Pod: v.Pod, Attempt: v.nextAttempt(), RuntimeHandler: handler}}
	if v.mayAppear(p, launch.Spec.Attempt) || v.startMayLand(p) || !v.tried(&launch) {
		return false
	}
	if v.PodUnit() {
		var ready bool
		if launch.Spec.Containers, ready = v.specs(p); !ready {
			return false
		}
		if launch.Spec.Volumes, ready = v.contents(p); !ready {
			return false
		}
		launch.Loop = v.loopKey()
		if launch.Restart = v.newest != nil; launch.Restart {
			launch.Ended, _ = v.taskEnd()
		}
	}
	if !v.PodUnit() && v.newest != nil {
		p.record(corev1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
	}
	p.Actions = append(p.Actions, launch)
	return true
}

// backsOff is true while a failed launch is not made again. Half way a pull that
// failed is shown as one that backs off.
func (v view) backsOff(p *Plan) bool {
	f, failed := v.Memory.Failures[podKey]
	if !failed || !v.Now.Before(f.Until()) {
		return false
	}
	p.Wake(f.Until())
	if half := f.half(); images.PullFailed(f.Reason) && v.Now.Before(half) {
		p.Wake(half)
	}
	return true
}

// mayAppear is true while an older launch whose reply was lost may appear beside this
// attempt.
func (v view) mayAppear(p *Plan, attempt int) bool {
	for lost := range v.Memory.Lost {
		if settled, may := v.unsettled(lost); may && lost < attempt && !v.holds(lost) {
			p.Wake(settled)
			return true
		}
	}
	return false
}

// startMayLand is true while the remote, which forgot the pod, may yet make a container whose
// start got no reply. The next sandbox has the number of the one that the start was for: an
// app container would run in it that no init container came before.
func (v view) startMayLand(p *Plan) (may bool) {
	if v.PodUnit() || v.newest != nil {
		return false
	}
	for _, at := range v.Memory.LostStarts {
		if settled := at.Add(v.Settle); v.Now.Before(settled) {
			p.Wake(settled)
			may = true
		}
	}
	return may
}

// runtimeHandler is that of the pod's RuntimeClass; false while it is not known.
func (v view) runtimeHandler(p *Plan) (string, bool) {
	name := v.Pod.Spec.RuntimeClassName
	if name == nil || *name == "" {
		return "", true
	}
	handler, known := v.Objects.RuntimeHandlers[*name]
	if handler.Err != nil {
		p.record(corev1.EventTypeWarning, ReasonSandboxFailed,
			fmt.Sprintf("Failed to create pod sandbox: failed to get sandbox runtime: %v", handler.Err))
	}
	return handler.Value, known && handler.Err == nil
}

// Terminal is true for the phases that never change again.
func Terminal(phase corev1.PodPhase) bool {
	return phase == corev1.PodFailed || phase == corev1.PodSucceeded
}

// hasEnded is true for a pod whose phase is terminal, by our word or by somebody else's in
// the API (kubelet: UpdatePod).
func (v view) hasEnded() bool {
	return Terminal(v.Memory.Status.Phase) || Terminal(v.Pod.Status.Phase)
}

// grace is what the pod's spec gives its containers to end.
func (v view) grace() time.Duration {
	return Grace(v.Pod)
}

// Grace is what a pod's spec gives its containers to end.
func Grace(pod *corev1.Pod) time.Duration {
	return seconds(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
}

func seconds(s *int64, otherwise int64) time.Duration {
	if s == nil {
		return time.Duration(otherwise) * time.Second
	}
	return time.Duration(*s) * time.Second
}

// describe names a container for messages, as the kubelet does.
func (v view) describe() string {
	return fmt.Sprintf("%s_%s(%s)", v.Pod.Name, v.Pod.Namespace, v.Pod.UID)
}
