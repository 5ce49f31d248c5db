package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// AwaitingCapacity is the condition that is True while the remote has no room for the
// pod. Its reason names the launch that comes next, so that it outlives the process.
// The status manager owns the condition under the same name, and removes it from the
// API once the engine drops it.
const AwaitingCapacity corev1.PodConditionType = "burstlet.dev/AwaitingCapacity"

// LaunchTry counts how often an attempt was refused for lack of room by a backend
// that counts (backend.Limits.Tries). The next launch of it has another name on the
// remote, so the number must not be lost: it stands in a condition of the pod before
// that launch is made.
type LaunchTry struct{ Attempt, Count int }

// tryReason is the reason of the condition, which LaunchTryIn reads.
const tryReason = "Attempt%dTry%d"

// LaunchTryIn reads the number from a pod's status; zero where there is none.
func LaunchTryIn(s *corev1.PodStatus) (t LaunchTry) {
	for i := range s.Conditions {
		if s.Conditions[i].Type != AwaitingCapacity {
			continue
		}
		n, err := fmt.Sscanf(s.Conditions[i].Reason, tryReason, &t.Attempt, &t.Count)
		if n == 2 && err == nil && t.Attempt >= 0 && t.Count > 0 {
			return t
		}
	}
	return LaunchTry{}
}

// tried numbers the try; false while the API does not hold the number, whose
// arrival there brings the pod back. While an earlier launch of the attempt may yet
// come true a refusal proves nothing, and does not count.
func (v view) tried(launch *Launch) bool {
	attempt := launch.Spec.Attempt
	_, unsettled := v.unsettled(attempt)
	launch.Counts = v.Tries && !unsettled
	if !v.Tries || v.Memory.Try.Attempt != attempt {
		return true
	}
	launch.Spec.Try = v.Memory.Try.Count
	return launch.Spec.Try == 0 || LaunchTryIn(&v.Pod.Status) == v.Memory.Try
}

// awaitingCapacity is the condition for refused launches. It turns False with the attempt and
// goes once that has run for as long as it may take to show in listings: a process
// that starts before, and does not see it, launches the same once more.
func (v view) awaitingCapacity(p *Plan) []corev1.PodCondition {
	t := v.Memory.Try
	if !v.Tries || t.Count == 0 || p.Termination != nil || v.newest != nil && v.newest.Attempt > t.Attempt {
		return nil
	}
	c := condition(AwaitingCapacity, true)
	c.Reason = fmt.Sprintf(tryReason, t.Attempt, t.Count)
	c.Message = fmt.Sprintf("The remote had no room for the pod, it is asked again (refusals so far: %d)", t.Count)
	if v.newest != nil && v.newest.Attempt == t.Attempt {
		if shown := v.newest.CreatedAt.Add(v.Settle); v.Now.Before(shown) {
			p.Wake(shown)
		} else if !v.newest.Live || v.attemptStarted() {
			return nil
		}
		c.Status = corev1.ConditionFalse
		c.Message = fmt.Sprintf("The remote found room for the pod (refusals before: %d)", t.Count)
	}
	return []corev1.PodCondition{c}
}

// attemptStarted is true if a container of the newest attempt runs or ran.
func (v view) attemptStarted() bool {
	for i := range v.newest.Containers {
		if !v.newest.Containers[i].StartedAt.IsZero() {
			return true
		}
	}
	return false
}
