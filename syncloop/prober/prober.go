// Package prober runs the startup, liveness and readiness probes of containers:
// one goroutine a probe, through the backend's Exec and Dial. It keeps outcomes;
// what follows from them is for the plan to decide.
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

// Result is a probe's outcome and, of a failure, the last output.
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
	// Spec is the container, for its named ports.
	Spec *corev1.Container
}
