package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/admit"
	"github.com/burstlet/burstlet/syncloop/images"
	"github.com/burstlet/burstlet/syncloop/resolve"
)

// The kubelet's words for container states.
const (
	reasonContainerCreating = "ContainerCreating"
	reasonPodInitializing   = "PodInitializing"
	ReasonCrashLoopBackOff  = "CrashLoopBackOff"
	reasonStatusUnknown     = "ContainerStatusUnknown"
	ReasonErrImagePull      = "ErrImagePull"
	ReasonImagePullBackOff  = "ImagePullBackOff"
	messageStatusUnknown    = "The container could not be located when the pod was terminated"
)

// containerStatuses are those of the containers of one role, in the order of the
// spec.
func (v view) containerStatuses(p *Plan, containers []podContainer) []corev1.ContainerStatus {
	var statuses []corev1.ContainerStatus
	for _, m := range containers {
		statuses = append(statuses, v.containerStatus(p, m))
	}
	return statuses
}

// containerStatus is one container's state:
//
//	seen running            Running
//	seen ended              Terminated; Waiting, CrashLoopBackOff while it waits to restart
//	seen ended, never ran   Waiting, with the remote's reason
//	made, not started       Waiting
//	never seen, never ran   Waiting
//	ran, not seen any more  as it ended; Terminated, ContainerStatusUnknown, 137 if nobody saw
func (v view) containerStatus(p *Plan, c podContainer) corev1.ContainerStatus {
	prior := v.prior(c)
	s := corev1.ContainerStatus{Name: c.Name, Image: c.Image}
	if prior != nil {
		s.RestartCount, s.LastTerminationState = prior.RestartCount, prior.LastTerminationState
		s.ImageID, s.ContainerID, s.Image, s.User = prior.ImageID, prior.ContainerID, prior.Image, prior.User
	}
	history := v.history(c.Name)
	switch {
	case len(history) > 0:
		if v.fromFacts(&s, prior, history); p.Termination == nil && v.inPostStart(c) {
			v.whileStarting(&s, prior)
		}
	case ran(prior):
		v.fromPrior(&s, prior)
	default:
		s.Image = c.Image
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: v.waitingReason()}
	}
	if p.Termination == nil {
		v.waitForStart(p, &s, c)
	} else {
		v.endUnseen(&s)
	}
	v.readiness(&s, c)
	v.allocation(&s, c)
	if prior != nil && s.State.Terminated == nil && !v.mayRunAgain(c, prior) {
		return *prior
	}
	return s
}

// readiness fills in whether the container has started and is ready.
//
//	app, sidecar   by their hook and probes, while they run
//	init           ready once it ended with 0
//	ephemeral      never
func (v view) readiness(s *corev1.ContainerStatus, c podContainer) {
	cur := v.current(c.Name)
	running := s.State.Running != nil && cur != nil
	started := running && v.started(c, cur)
	switch c.role {
	case ephemeralRole:
		return
	case initRole:
		s.Ready = s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
	case appRole, sidecarRole:
		s.Ready = running && v.isReady(c, cur)
	}
	s.Started = &started
}

// allocation fills in the resources and the mounts that the container has.
func (v view) allocation(s *corev1.ContainerStatus, c podContainer) {
	v.resources(s, c)
	for _, m := range c.VolumeMounts {
		status := corev1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			status.RecursiveReadOnly = new(corev1.RecursiveReadOnlyDisabled)
			if below, err := resolve.ReadOnlyBelow(v.Pod, &m, v.Objects, v.Node); err == nil && below {
				status.RecursiveReadOnly = new(corev1.RecursiveReadOnlyEnabled)
			}
		}
		s.VolumeMounts = append(s.VolumeMounts, status)
	}
}

// mayRunAgain is whether the API lets a container leave the state it has. Where
// a whole attempt is made again, a container that ended for good runs again too:
// the API goes on to show its first end (pod validation,
// ValidateContainerStateTransition).
func (v view) mayRunAgain(c podContainer, s *corev1.ContainerStatus) bool {
	t := s.State.Terminated
	always := c.RestartPolicy == nil && v.Pod.Spec.RestartPolicy == corev1.RestartPolicyAlways
	return t == nil || always || v.mayRestartAll() || v.restarts(c, t.ExitCode)
}

func (v view) waitingReason() string {
	if len(v.Pod.Spec.InitContainers) > 0 {
		return reasonPodInitializing
	}
	return reasonContainerCreating
}

// fromFacts fills in what was seen of the newest attempt.
func (v view) fromFacts(s *corev1.ContainerStatus, prior *corev1.ContainerStatus, history []ContainerAttempt) {
	cur := &history[0]
	id := v.Runtime + "://" + cur.ID
	if ran(prior) && prior.State.Terminated != nil && cmp.Or(prior.State.Terminated.ContainerID, prior.ContainerID) != id {
		s.LastTerminationState = prior.State
	}
	if len(history) > 1 && history[1].State() == backend.Exited &&
		(!v.PodUnit() || !history[1].StartedAt.IsZero()) {
		s.LastTerminationState = corev1.ContainerState{Terminated: v.terminated(&history[1])}
	}
	s.RestartCount = max(s.RestartCount, int32(cur.ContainerFacts.Attempt))
	s.Image, s.ImageID = cur.Image, cur.ImageID
	if cur.User != nil {
		s.User = &corev1.ContainerUser{Linux: cur.User}
	}
	switch {
	case !v.exited(cur) && cur.State() == backend.Running:
		s.ContainerID = id
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.Time{Time: cur.StartedAt}}
	case v.exited(cur) && cur.StartedAt.IsZero() && v.PodUnit():
		s.State.Waiting = v.neverRan(cur)
	case v.exited(cur):
		s.ContainerID = id
		s.State.Terminated = v.terminated(cur)
		v.sameEnd(s.State.Terminated, prior)
	default:
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: v.waitingReason()}
	}
}

// sameEnd keeps the time of an end that was reported before, where a remote without times
// of containers has a new process see it again.
func (v view) sameEnd(t *corev1.ContainerStateTerminated, prior *corev1.ContainerStatus) {
	if !v.PodUnit() || prior == nil || prior.State.Terminated == nil {
		return
	}
	told := prior.State.Terminated
	if told.ContainerID == t.ContainerID && !told.FinishedAt.IsZero() && told.FinishedAt.Before(&t.FinishedAt) {
		t.FinishedAt = told.FinishedAt
	}
}

// neverRan says why the remote could not start a container; in the second half
// of the wait for the next try it says that it backs off, as the kubelet does.
func (v view) neverRan(c *ContainerAttempt) *corev1.ContainerStateWaiting {
	if c.Reason == "" {
		return &corev1.ContainerStateWaiting{Reason: v.waitingReason()}
	}
	w := &corev1.ContainerStateWaiting{Reason: c.Reason, Message: c.Message}
	if images.PullFailed(c.Reason) && c.Pod == v.newest {
		if half := v.taskHalf(); !v.Now.Before(half) {
			w.Reason = ReasonImagePullBackOff
			w.Message = fmt.Sprintf("Back-off pulling image %q: %s: %s", c.Image, c.Reason, c.Message)
		}
	}
	return w
}

// terminated is the end of a container, with what is unknown of it said so.
func (v view) terminated(c *ContainerAttempt) *corev1.ContainerStateTerminated {
	t := &corev1.ContainerStateTerminated{
		ContainerID: v.Runtime + "://" + c.ID, StartedAt: metav1.Time{Time: c.StartedAt},
		FinishedAt: metav1.Time{Time: c.FinishedAt}, ExitCode: exitCode(c),
		Reason: c.Reason, Message: c.Message,
	}
	switch {
	case c.State() != backend.Exited:
		t.FinishedAt = metav1.Time{Time: c.Pod.StoppedAt}
		t.Reason, t.Message = reasonStatusUnknown, messageStatusUnknown
	case c.OOM:
		t.Reason = reasonOOMKilled
	case t.Reason != "":
	case t.ExitCode == 0:
		t.Reason = "Completed"
	default:
		t.Reason = "Error"
	}
	return t
}

// fromPrior is for a container that the remote no longer has: how it ended stays;
// if nobody saw it end, that is said.
func (v view) fromPrior(s *corev1.ContainerStatus, prior *corev1.ContainerStatus) {
	s.State = prior.State
	if was := s.State; was.Running != nil || was.Waiting != nil && s.LastTerminationState.Terminated == nil {
		s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ContainerID: prior.ContainerID,
			Reason:      reasonStatusUnknown, Message: messageStatusUnknown, ExitCode: unknownExitCode,
			FinishedAt: metav1.Time{Time: v.Now},
		}}
		if was.Running != nil { // else it vanished in its first postStart hook
			s.State.Terminated.StartedAt = was.Running.StartedAt
		}
	}
}

// waitForStart turns the state of a container that is to be started into
// Waiting where something holds it back, and says what.
func (v view) waitForStart(p *Plan, s *corev1.ContainerStatus, c podContainer) {
	next := v.step(c)
	if c.role == ephemeralRole {
		if why, refused := v.Refused[c.Name]; refused {
			s.State.Waiting = &corev1.ContainerStateWaiting{Reason: admit.ReasonUnsupported, Message: why}
			p.recordOf(c.Name, corev1.EventTypeWarning, admit.ReasonUnsupported, "Container "+c.Name+": "+why)
			return
		}
		next = v.stepEphemeral(c)
	}
	if next.verb != start {
		return
	}
	var wait *corev1.ContainerStateWaiting
	hold := v.Memory.Backoff[loopOf(c)]
	if v.PodUnit() {
		hold = v.Memory.Backoff[v.loopKey()]
	}
	backsOff := next.restart && !backoffUntil(hold, next.ended, v.Now).IsZero()
	f, failed := v.lastFailure(p, c, next, backsOff)
	switch {
	case failed && f.Reason != "":
		wait = v.failureWait(p, c, f)
	case backsOff:
		wait = &corev1.ContainerStateWaiting{
			Reason: ReasonCrashLoopBackOff,
			Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s",
				hold.Delay.Round(time.Second), c.Name, v.describe()),
		}
	case next.all:
		wait = &corev1.ContainerStateWaiting{Reason: reasonRestartingAll, Message: messageRestartingAll}
	case next.replace:
		// Whatever its policy it runs again: it is not shown as one that ended.
		wait = &corev1.ContainerStateWaiting{Reason: v.waitingReason()}
	default:
		return
	}
	if s.State.Terminated != nil {
		s.LastTerminationState = s.State
	}
	s.State = corev1.ContainerState{Waiting: wait}
}

// lastFailure is what keeps a container from being started, and is to be shown.
func (v view) lastFailure(p *Plan, c podContainer, next step, backsOff bool) (f Failure, failed bool) {
	if f, failed = v.failedStart(c, next); failed {
		if backsOff {
			p.Wake(f.Until())
		}
		return f, !backsOff || v.Now.Before(f.Until())
	}
	if f, failed = p.Held[c.Name]; failed {
		return f, true
	}
	if v.PodUnit() {
		f, failed = v.Memory.Failures[podKey]
		return f, failed && (f.Container == "" || f.Container == c.Name)
	}
	f, failed = v.Memory.Failures[c.Name]
	return f, failed
}

// failureWait shows a failure; a pull that backs off says so in the second half
// of the wait.
func (v view) failureWait(p *Plan, c podContainer, f Failure) *corev1.ContainerStateWaiting {
	w := &corev1.ContainerStateWaiting{Reason: f.Reason, Message: f.Message}
	if images.PullFailed(f.Reason) && !v.Now.Before(f.half()) {
		w.Reason = ReasonImagePullBackOff
		about, image := c.Name, c.Image
		if f.Image != "" {
			about, image = "", f.Image // a volume's is the pod's
		}
		p.recordOf(about, corev1.EventTypeNormal, "BackOff", fmt.Sprintf("Back-off pulling image %q", image))
		p.recordOf(c.Name, corev1.EventTypeWarning, "Failed", "Error: "+ReasonImagePullBackOff)
		w.Message = fmt.Sprintf("Back-off pulling image %q: %s: %s", image, f.Reason, f.Message)
	}
	return w
}

// endUnseen is for a pod that is ending: what ran and is no longer seen has
// ended, though nobody knows how.
func (v view) endUnseen(s *corev1.ContainerStatus) {
	if v.running() || s.State.Waiting == nil || s.ContainerID == "" {
		return
	}
	if s.LastTerminationState.Terminated != nil {
		s.State = s.LastTerminationState
		return
	}
	s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ContainerID: s.ContainerID, Reason: reasonStatusUnknown, Message: messageStatusUnknown,
		ExitCode: unknownExitCode, FinishedAt: metav1.Time{Time: v.Now},
	}}
}

// endNeverStarted is for a pod of which nothing can run any more: what never started has
// ended, too, if its turn had come (kubelet: TerminatePod).
//
//	app    once the pod was initialised
//	init   up to the last that was started; the first in any case
func (v view) endNeverStarted(s *corev1.PodStatus) {
	began := func(c corev1.ContainerStatus) bool {
		return c.State.Waiting == nil || c.LastTerminationState.Terminated != nil
	}
	last := 0
	for i, c := range s.InitContainerStatuses {
		if began(c) {
			last = i
		}
	}
	if v.wasInitialised(s) || slices.ContainsFunc(s.ContainerStatuses, began) {
		endWaiting(s.ContainerStatuses)
	}
	endWaiting(s.InitContainerStatuses[:min(last+1, len(s.InitContainerStatuses))])
}

// wasInitialised is true if the pod has no init container, or its last one has ever
// ended with 0 (kubelet: hasPodInitialized).
func (v view) wasInitialised(s *corev1.PodStatus) bool {
	if len(v.inits) == 0 {
		return true
	}
	last := s.InitContainerStatuses[len(v.inits)-1]
	for _, state := range []corev1.ContainerState{last.State, last.LastTerminationState} {
		if end := state.Terminated; v.inits[len(v.inits)-1].role == initRole && end != nil && end.ExitCode == 0 {
			return true
		}
	}
	return false
}

func endWaiting(statuses []corev1.ContainerStatus) {
	for i := range statuses {
		if statuses[i].State.Waiting != nil {
			statuses[i].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				Reason: reasonStatusUnknown, Message: messageStatusUnknown, ExitCode: unknownExitCode,
			}}
		}
	}
}
