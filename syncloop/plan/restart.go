package plan

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The kubelet's numbers (kubelet.go MaxContainerBackOff, backOffPeriod).
const (
	crashInitial = 10 * time.Second
	crashMax     = 5 * time.Minute
	// crashReset is how long a container must have run since its last restart
	// for its crash loop to be forgotten.
	crashReset = 2 * crashMax
)

// unknownExitCode is reported for a container whose end nobody saw.
const unknownExitCode = 137

// restarts is the restart policy for a container that ended with code. The
// first of its own rules that matches the code decides, then its own policy,
// then the pod's.
//
//	              exit 0   exit != 0
//	Always        app      app, init
//	OnFailure     -        app, init
//	Never         -        -
//	sidecar       always   always
//	ephemeral     -        -
func (v view) restarts(m podContainer, code int32) bool {
	switch {
	case m.role == sidecarRole:
		return true
	case m.role == ephemeralRole:
		return false
	case m.RestartPolicy != nil && ruleAction(m.RestartPolicyRules, code) != "":
		return true
	}
	switch restartPolicy(v.Pod, m) {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return code != 0
	default:
		return m.role == appRole || code != 0
	}
}

// restartPolicy of a container is its own or the pod's.
func restartPolicy(pod *corev1.Pod, m podContainer) corev1.RestartPolicy {
	if m.RestartPolicy != nil {
		return corev1.RestartPolicy(*m.RestartPolicy)
	}
	return pod.Spec.RestartPolicy
}

// ruleAction is what the first rule that matches says (Container.restartPolicyRules);
// empty where none does.
func ruleAction(rules []corev1.ContainerRestartRule, code int32) corev1.ContainerRestartRuleAction {
	for _, r := range rules {
		if r.ExitCodes == nil {
			continue
		}
		in := slices.Contains(r.ExitCodes.Values, code)
		if in == (r.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn) {
			return r.Action
		}
	}
	return ""
}

// backoffUntil is when a container that ended at finished may start again; the
// zero time is at once.
func backoffUntil(b Backoff, finished, now time.Time) time.Time {
	if b.Delay == 0 {
		return time.Time{}
	}
	if finished.IsZero() || finished.Before(b.Last) {
		finished = b.Last
	}
	if finished.Sub(b.Last) > crashReset {
		return time.Time{}
	}
	if until := finished.Add(b.Delay); now.Before(until) {
		return until
	}
	return time.Time{}
}

// next is the backoff after a restart at now of a container that ended at
// finished.
func (b Backoff) next(finished, now time.Time) Backoff {
	switch {
	case b.Delay == 0, !finished.IsZero() && finished.Sub(b.Last) > crashReset:
		return Backoff{Delay: crashInitial, Last: now}
	default:
		return Backoff{Delay: min(2*b.Delay, crashMax), Last: now}
	}
}
