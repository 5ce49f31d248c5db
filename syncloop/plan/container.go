package plan

import (
	"errors"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/resolve"
)

type verb int

const (
	wait     verb = iota // it runs, or its end is not seen yet
	start                // make attempt step.attempt
	finished             // ended for good with step.code
)

// step is what is next for one container.
type step struct {
	verb    verb
	attempt int
	code    int32
	// ended is when the attempt before ended; restart says there was one.
	ended   time.Time
	restart bool
	// replace is true for a container that was ended because its spec changed.
	replace bool
	// all is true for one that runs again because all containers of the pod do.
	all bool
}

// step finds what is next for a container.
//
//	never seen, API says it never ran   start attempt 0
//	never seen, API says it ran         lost: ended with what the API knows, or 137
//	made but not started                start the same attempt (in a new sandbox: the next)
//	running                             wait
//	ended                               by restart policy: start the next attempt, or finished
//	ended for a changed image           start the next attempt
//	ended in an earlier round           start the next attempt
//	init, ended 0 in an older sandbox,  start the next attempt
//	or in one that is lost
func (v view) step(m podContainer) step {
	cur, prior := v.current(m.Name), v.prior(m)
	if cur == nil {
		return v.stepUnseen(m, prior)
	}
	next := step{attempt: cur.ContainerFacts.Attempt + 1, ended: cur.FinishedAt}
	if prior != nil {
		next.attempt = max(next.attempt, int(prior.RestartCount))
	}
	switch {
	case v.exited(cur):
		if next.ended.IsZero() {
			next.ended = cur.Pod.StoppedAt
		}
		next.code = exitCode(cur)
		if cur.StartedAt.IsZero() && v.PodUnit() {
			next.attempt, next.verb = cur.ContainerFacts.Attempt, start
			return next
		}
		if v.outdated(m, cur) {
			next.verb, next.all = start, true
			return next
		}
		if m.role.initial() && next.code == 0 && !v.PodUnit() && !v.inSandbox(cur) {
			next.verb = start
			return next
		}
		if v.replaced(m, cur) {
			next.verb, next.restart, next.replace = start, true, true
			return next
		}
		return v.after(m, next)
	case cur.State() == backend.Waiting:
		if v.inSandbox(cur) {
			return step{verb: start, attempt: cur.ContainerFacts.Attempt}
		}
		return step{verb: start, attempt: next.attempt}
	}
	return step{verb: wait}
}

// stepUnseen is what is next for a container that the remote does not have.
func (v view) stepUnseen(m podContainer, prior *corev1.ContainerStatus) step {
	if !ran(prior) {
		return step{verb: start}
	}
	code, ended := lastEnd(prior)
	lost := step{attempt: int(prior.RestartCount) + 1, code: code, ended: ended}
	if w := prior.State.Waiting; w != nil && w.Reason == reasonRestartingAll {
		lost.verb, lost.all = start, true
		return lost
	}
	if m.role == initRole && code == 0 && !v.PodUnit() {
		lost.verb = start
		return lost
	}
	return v.after(m, lost)
}

// replaced is true for a container that was ended because the spec changed: its
// own, or in a pod that is one unit that of any container.
func (v view) replaced(m podContainer, cur *ContainerAttempt) bool {
	own, whole := v.Memory.Terminations[m.Name], v.Memory.Terminations[podKey]
	return own.Replace && own.ID == cur.ID || whole.Replace && whole.ID == attemptID(cur.Pod)
}

func attemptID(a *backend.PodFacts) string { return strconv.Itoa(a.Attempt) }

// after applies the restart policy to a container that ended.
func (v view) after(m podContainer, s step) step {
	s.verb = finished
	if v.restarts(m, s.code) {
		s.verb, s.restart = start, true
	}
	return s
}

// lastEnd is the exit code and time that a status has of a container that the
// remote no longer has.
func lastEnd(s *corev1.ContainerStatus) (int32, time.Time) {
	t := s.State.Terminated
	if t == nil && s.State.Running == nil {
		t = s.LastTerminationState.Terminated
	}
	if t == nil {
		return unknownExitCode, time.Time{}
	}
	return t.ExitCode, t.FinishedAt.Time
}

// start plans a container's next attempt, unless it has to wait.
func (v view) start(p *Plan, m podContainer, s step) {
	if until := v.holdUntil(m, s); v.Now.Before(until) {
		p.Wake(until)
		if half := v.Memory.Failures[m.Name].half(); v.Now.Before(half) {
			p.Wake(half)
		}
		return
	}
	spec, ok := v.spec(p, m, s.attempt)
	if !ok {
		return
	}
	ref := v.ref(v.nextAttempt())
	if sandbox := v.sandbox(); sandbox != nil {
		ref = sandbox.Ref
	}
	p.Actions = append(p.Actions, StartContainer{
		Ref: ref, Spec: spec, Pull: v.Pulls, Restart: s.restart, Ended: s.ended, Loop: loopOf(m),
	})
}

// holdUntil is when a container may be started: after its crash backoff and
// after the delay that its last failure to start left.
func (v view) holdUntil(m podContainer, s step) time.Time {
	var until time.Time
	if s.restart {
		until = backoffUntil(v.Memory.Backoff[loopOf(m)], s.ended, v.Now)
	}
	if f, ok := v.Memory.Failures[m.Name]; ok && f.Until().After(until) {
		until = f.Until()
	}
	return until
}

// loopOf names the crash loop of a container: one with another image or other
// resources starts a new one (kubelet: GetBackoffKey).
func loopOf(m podContainer) string { return m.Name + "@" + resolve.BackoffHash(m.Container) }

// spec makes one attempt of a container ready. It is false while something that
// the container needs is not known, or cannot be had: that stands in the plan.
func (v view) spec(p *Plan, m podContainer, attempt int) (backend.ContainerSpec, bool) {
	spec := backend.ContainerSpec{
		Pod: v.Pod, Init: m.role.initial(), Target: m.target, Attempt: attempt, Hash: resolve.Hash(m.Container),
	}
	objects, fresh := v.envFiles(p, m, attempt)
	container, origins, err := resolve.Resolve(v.Pod, m.Container, objects, v.Node, v.addressesNow())
	if v.VirtualKubeletEvents && !errors.Is(err, resolve.ErrWaiting) {
		for _, e := range resolve.LackEvents(m.Container, v.Objects) {
			p.record(corev1.EventTypeWarning, e.Reason, e.Message)
		}
	}
	switch {
	case errors.Is(err, resolve.ErrWaiting):
		return spec, false
	case err != nil:
		p.hold(m.Name, ReasonCreateConfigError, err.Error())
		p.recordOf(m.Name, corev1.EventTypeWarning, "Failed", "Error: "+err.Error())
		return spec, false
	case !fresh:
		return spec, false
	}
	spec.Container, spec.Origins = container, origins
	if m.role != ephemeralRole {
		spec.Round = v.round
	}
	var known bool
	if spec.Credentials, known = v.credentials(p, m.Image); !known {
		return spec, false
	}
	spec.ImageVolumes, known = v.imageVolumes(p, m)
	return spec, known
}

func (v view) addressesNow() resolve.Addresses {
	at := resolve.Addresses{HostIPs: v.HostIPs, Late: v.Supervised}
	if s := v.sandbox(); s != nil {
		at.PodIPs = s.IPs
		if len(s.HostIPs) > 0 {
			at.HostIPs = s.HostIPs
		}
	}
	if v.Pod.Spec.HostNetwork {
		at.PodIPs = at.HostIPs
	}
	return at
}

// stepEphemeral is step for a container that runs once, and is lost with its
// sandbox.
func (v view) stepEphemeral(m podContainer) step {
	cur := v.current(m.Name)
	if _, refused := v.Refused[m.Name]; refused {
		return step{verb: wait}
	}
	switch {
	case cur == nil && !ran(v.prior(m)):
		return step{verb: start}
	case cur != nil && cur.State() == backend.Waiting && v.inSandbox(cur):
		return step{verb: start, attempt: cur.ContainerFacts.Attempt}
	case cur != nil && cur.State() == backend.Running:
		return step{verb: wait}
	}
	return step{verb: finished}
}
