package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// The kubelet's words for starts that failed though the container was made.
const (
	ReasonRunError           = "RunContainerError"
	reasonPostStartHookError = "PostStartHookError"
)

// failedStart is the failure of the start before, of a container that was made and has
// ended: its command could not be run, or its postStart hook failed. A kubelet shows it
// until it decides on the next start: then the container may back off.
func (v view) failedStart(c podContainer, next step) (Failure, bool) {
	if f, ok := v.Memory.Failures[c.Name]; ok && f.Reason == ReasonRunError {
		return f, true
	}
	cur := v.current(c.Name)
	if cur == nil || !v.exited(cur) {
		return Failure{}, false
	}
	hook := v.Memory.Hooks[hookKey(c, cur, PostStart)]
	return Failure{
		Reason: reasonPostStartHookError, Message: hook.Message, At: next.ended, Delay: delayFailedStart.first,
	}, hook.Failed
}

// inPostStart is true for a container whose postStart hook runs or failed: a kubelet is
// starting it still.
func (v view) inPostStart(c podContainer) bool {
	cur := v.current(c.Name)
	return !v.Supervised && cur != nil && !v.exited(cur) && cur.State() == backend.Running && !v.postStarted(c, cur)
}

// whileStarting shows a container that is being started as it was before. Its id says
// that it was made: should it vanish, it has run.
func (v view) whileStarting(s *corev1.ContainerStatus, prior *corev1.ContainerStatus) {
	s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: v.waitingReason()}}
	if prior == nil || prior.State.Waiting == nil && prior.State.Terminated == nil {
		return
	}
	if s.State = prior.State; prior.State.Terminated != nil {
		s.LastTerminationState = prior.LastTerminationState
	}
}

// delayFailedStart is how long the reason of a start that failed is shown before the
// backoff is: a kubelet sees the end of the container when it relists, every second.
var delayFailedStart = delays{time.Second, time.Second}
