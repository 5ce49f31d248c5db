package syncloop

import (
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

// shouldRestart is the restart policy for a container that ended with code.
//
//	              exit 0   exit != 0
//	Always        app      app, init
//	OnFailure     -        app, init
//	Never         -        -
func shouldRestart(policy corev1.RestartPolicy, init bool, code int32) bool {
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return code != 0
	default:
		return !init || code != 0
	}
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
