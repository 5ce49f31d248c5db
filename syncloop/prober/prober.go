// Package prober runs the startup, liveness and readiness probes of containers:
// one goroutine a probe, through the backend's Exec and Dial. It keeps outcomes;
// what follows from them is for the plan to decide. How one probe is carried out
// is package check's matter.
package prober

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// Kind is a kind of probe.
type Kind string

// The kinds, as metrics and Events spell them.
const (
	Startup   Kind = "Startup"
	Liveness  Kind = "Liveness"
	Readiness Kind = "Readiness"
)

// Key names one probe of one container attempt.
type Key struct {
	Container string
	// ID is the runtime's id of the container: a restarted one is probed anew.
	ID   string
	Kind Kind
}

// Outcome is what a probe has found, after its thresholds.
type Outcome int

// Unknown is an outcome that no threshold was reached for yet.
const (
	Unknown Outcome = iota
	Success
	Failure
)

// String is the outcome as logs name it.
func (o Outcome) String() string {
	switch o {
	case Success:
		return "success"
	case Failure:
		return "failure"
	case Unknown:
	}
	return "unknown"
}

// Result is a probe's outcome and, of a failure, the last output, bounded.
type Result struct {
	Outcome Outcome
	Message string
}

// Target is a probe that should be running.
type Target struct {
	Key
	Ref       backend.ContainerRef
	Probe     *corev1.Probe
	StartedAt time.Time
	// PodIP is where http, tcp and grpc probes go that name no host.
	PodIP string
	// Spec is the container as the API has it, for its named ports and for
	// $(NAME) of literal environment in exec commands. It is not the resolved
	// one: what Secrets hold has no business in a probe's command.
	Spec *corev1.Container
}

// The API's defaults (SetDefaults_Probe), for probes that did not pass its
// defaulting.
const (
	defaultPeriod           = 10 * time.Second
	defaultTimeout          = time.Second
	defaultSuccessThreshold = 1
	defaultFailureThreshold = 3
)

func period(p *corev1.Probe) time.Duration  { return seconds(p.PeriodSeconds, defaultPeriod) }
func timeout(p *corev1.Probe) time.Duration { return seconds(p.TimeoutSeconds, defaultTimeout) }

func seconds(n int32, otherwise time.Duration) time.Duration {
	if n <= 0 {
		return otherwise
	}
	return time.Duration(n) * time.Second
}

// threshold is how often in a row a finding must come to count.
func threshold(p *corev1.Probe, found Outcome) int {
	n, otherwise := p.SuccessThreshold, defaultSuccessThreshold
	if found == Failure {
		n, otherwise = p.FailureThreshold, defaultFailureThreshold
	}
	if n <= 0 {
		return otherwise
	}
	return int(n)
}

// final is true for an outcome after which this container is not probed any
// more: it has started, or it is to be restarted.
func final(kind Kind, o Outcome) bool {
	return o != Unknown && (kind == Startup || (kind == Liveness && o == Failure))
}
