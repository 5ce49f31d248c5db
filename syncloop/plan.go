package syncloop

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/resolve"
)

const (
	// orphanGrace is what a pod gets that nobody knows any more
	// (kubelet: SyncTerminatingRuntimePod).
	orphanGrace = time.Second
	// minGrace is the least that a container gets to end by itself, also for a
	// pod deleted with grace 0.
	minGrace = time.Second
)

// Reasons in pod status that this package gives.
const (
	ReasonUnsupported      = "UnsupportedByBackend"
	reasonDeadlineExceeded = "DeadlineExceeded"
	reasonInvalid          = "InvalidPod"
)

// Decide says what to do with one pod. It is pure and total.
func Decide(in Input) Plan {
	v := newView(&in)
	p := Plan{Kill: merge(in.Memory.Kill, v.ordered())}
	if p.Kill == nil {
		v.sync(&p)
	}
	if p.Kill != nil {
		p.Actions = nil
		v.end(&p)
	}
	v.couldRun(&p)
	if in.Pod != nil {
		p.Status = v.status(&p)
	}
	return p
}

// ordered is the order to end the pod that its state in the API gives.
//
//	gone from the API             all of it, within its grace
//	deletionTimestamp             all of it, within the grace of the request
//	phase Failed or Succeeded     what still runs; the rest stays for its logs
//	activeDeadlineSeconds passed  Failed, DeadlineExceeded
func (v view) ordered() *Kill {
	if v.Pod == nil {
		return &Kill{Deadline: v.Now.Add(orphanGrace), Gone: true}
	}
	spec := &v.Pod.Spec
	grace := v.grace()
	switch {
	case v.Removed || v.Pod.DeletionTimestamp != nil:
		grace = max(minGrace, seconds(v.Pod.DeletionGracePeriodSeconds, int64(grace/time.Second)))
		return &Kill{Deadline: v.Now.Add(grace), Gone: true}
	case terminal(v.Memory.Status.Phase):
		return &Kill{Deadline: v.Now.Add(grace)}
	}
	if start := v.Memory.Status.StartTime; spec.ActiveDeadlineSeconds != nil && start != nil &&
		!v.Now.Before(start.Add(seconds(spec.ActiveDeadlineSeconds, 0))) {
		return &Kill{
			Deadline: v.Now.Add(grace), Phase: corev1.PodFailed, Reason: reasonDeadlineExceeded,
			Message: "Pod was active on the node longer than the specified deadline",
		}
	}
	return nil
}

// merge keeps the earliest deadline and the first outcome of two orders.
func merge(a, b *Kill) *Kill {
	if a == nil || b == nil {
		if a == nil {
			return b
		}
		return a
	}
	m := *a
	m.Gone = a.Gone || b.Gone
	if b.Deadline.Before(m.Deadline) {
		m.Deadline = b.Deadline
	}
	if m.Phase == "" {
		m.Phase, m.Reason, m.Message = b.Phase, b.Reason, b.Message
	}
	return &m
}

// sync plans towards a running pod, or finds that it has ended.
func (v view) sync(p *Plan) {
	if d := v.Pod.Spec.ActiveDeadlineSeconds; d != nil && v.Memory.Status.StartTime != nil {
		p.wake(v.Memory.Status.StartTime.Add(seconds(d, 0)))
	}
	if v.refused(p) {
		return
	}
	if f := v.Memory.Failures[podKey]; f.Class == "Invalid" || f.Class == "Unsupported" {
		p.Kill = &Kill{Deadline: v.Now, Phase: corev1.PodFailed, Reason: f.Reason, Message: f.Message}
		return
	}
	if v.Unit == PodUnit {
		v.syncTask(p)
	} else {
		v.syncSandbox(p)
	}
	v.collect(p)
}

// refused holds back or fails a pod with fields that cannot be honoured. One
// that was started by an earlier life of this process is not judged again.
func (v view) refused(p *Plan) bool {
	if len(v.Refusals) == 0 || v.newest != nil || v.everRan() {
		return false
	}
	if v.Now.Before(v.RefuseAt) {
		p.wake(v.RefuseAt)
		return true
	}
	p.Refused = true
	p.Kill = &Kill{
		Deadline: v.Now, Phase: corev1.PodFailed, Reason: ReasonUnsupported,
		Message: RefusalMessage(v.Refusals),
	}
	return true
}

// RefusalMessage is what a refused pod's status and Event say.
func RefusalMessage(refusals []backend.Refusal) string {
	words := make([]string, len(refusals))
	for i, r := range refusals {
		words[i] = r.Field + ": " + r.Why
	}
	return "Pod was rejected: " + strings.Join(words, "; ")
}

// syncSandbox is for backends that start single containers: a live sandbox,
// then the init containers in order, then the rest.
func (v view) syncSandbox(p *Plan) {
	initialised, failed := v.initialised()
	if failed || initialised && v.allDone() {
		p.Kill = &Kill{Deadline: v.Now}
		return
	}
	if v.sandbox() == nil && v.newest != nil && v.attemptRuns(v.newest) {
		v.stop(p, v.newest, v.Now.Add(v.grace())) // its sandbox died under it
		return
	}
	if v.sandbox() == nil && !v.launch(p) {
		return
	}
	if !initialised {
		v.startInit(p)
		return
	}
	for i := range v.Pod.Spec.Containers {
		c := &v.Pod.Spec.Containers[i]
		if s := v.step(c, false); s.verb == start {
			v.start(p, c, false, s)
		}
	}
}

// launch plans the next attempt, unless an earlier failure says to wait.
func (v view) launch(p *Plan) bool {
	if f, ok := v.Memory.Failures[podKey]; ok && v.Now.Before(f.Until()) {
		p.wake(f.Until())
		return false
	}
	launch := Launch{Spec: backend.LaunchSpec{Pod: v.Pod, Attempt: v.nextAttempt()}}
	for attempt, lost := range v.Memory.Lost { // an older one must not appear beside it
		if settled := lost.Add(v.Settle); attempt < launch.Spec.Attempt && v.Now.Before(settled) {
			p.wake(settled)
			return false
		}
	}
	if v.Unit == PodUnit {
		launch.Spec.Containers = v.specs()
		if launch.Restart = v.newest != nil; launch.Restart {
			launch.Ended, _ = v.taskEnd()
		}
	}
	p.Actions = append(p.Actions, launch)
	return true
}

// initialised is true once app containers may start; failed if they never will.
// Init containers run anew in a new sandbox.
func (v view) initialised() (done, failed bool) {
	if v.appsInSandbox() {
		return true, false
	}
	if v.sandbox() == nil && v.allDone() {
		return true, false
	}
	for i := range v.Pod.Spec.InitContainers {
		s := v.step(&v.Pod.Spec.InitContainers[i], true)
		if s.verb != finished {
			return false, false
		}
		if s.code != 0 {
			return false, true
		}
	}
	return true, false
}

func (v view) startInit(p *Plan) {
	for i := range v.Pod.Spec.InitContainers {
		c := &v.Pod.Spec.InitContainers[i]
		switch s := v.step(c, true); s.verb {
		case finished:
			continue
		case start:
			v.start(p, c, true, s)
		case wait:
		}
		return
	}
}

// appsInSandbox is true once an app container was made in the live sandbox.
func (v view) appsInSandbox() bool {
	for _, c := range v.Pod.Spec.Containers {
		if cur := v.current(c.Name); cur != nil && v.inSandbox(cur) {
			return true
		}
	}
	return false
}

func (v view) inSandbox(c *seen) bool { return c.pod == v.sandbox() }

// allDone is true when every app container has ended for good.
func (v view) allDone() bool {
	for i := range v.Pod.Spec.Containers {
		if v.step(&v.Pod.Spec.Containers[i], false).verb != finished {
			return false
		}
	}
	return true
}

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
}

// step finds what is next for a container.
//
//	never seen, API says it never ran   start attempt 0
//	never seen, API says it ran         lost: ended with what the API knows, or 137
//	made but not started                start the same attempt (in a new sandbox: the next)
//	running                             wait
//	ended                               by restart policy: start the next attempt, or finished
//	init, ended 0 in an older sandbox   start the next attempt
func (v view) step(c *corev1.Container, init bool) step {
	cur, prior := v.current(c.Name), v.prior(c.Name, init)
	if cur == nil {
		if !ran(prior) {
			return step{verb: start}
		}
		code, ended := lastEnd(prior)
		return v.after(init, step{attempt: int(prior.RestartCount) + 1, code: code, ended: ended})
	}
	next := step{attempt: cur.ContainerFacts.Attempt + 1, ended: cur.FinishedAt}
	if prior != nil {
		next.attempt = max(next.attempt, int(prior.RestartCount))
	}
	switch {
	case v.exited(cur):
		if next.ended.IsZero() {
			next.ended = cur.pod.StoppedAt
		}
		next.code = exitCode(cur)
		if cur.StartedAt.IsZero() && v.Unit == PodUnit {
			next.attempt, next.verb = cur.ContainerFacts.Attempt, start
			return next
		}
		if init && next.code == 0 && v.Unit == ContainerUnit && !v.inSandbox(cur) {
			next.verb = start
			return next
		}
		return v.after(init, next)
	case cur.State() == backend.Waiting:
		if v.inSandbox(cur) {
			return step{verb: start, attempt: cur.ContainerFacts.Attempt}
		}
		return step{verb: start, attempt: next.attempt}
	}
	return step{verb: wait}
}

// after applies the restart policy to a container that ended.
func (v view) after(init bool, s step) step {
	s.verb = finished
	if shouldRestart(v.Pod.Spec.RestartPolicy, init, s.code) {
		s.verb, s.restart = start, true
	}
	return s
}

// lastEnd is the exit code and time that a status tells of a container that the
// remote has no more.
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
func (v view) start(p *Plan, c *corev1.Container, init bool, s step) {
	if until := v.holdUntil(c, s); v.Now.Before(until) {
		p.wake(until)
		if half := v.Memory.Failures[c.Name].half(); v.Now.Before(half) {
			p.wake(half)
		}
		return
	}
	ref := v.ref(v.nextAttempt())
	if sandbox := v.sandbox(); sandbox != nil {
		ref = sandbox.Ref
	}
	p.Actions = append(p.Actions, StartContainer{
		Ref: ref, Spec: v.spec(c, init, s.attempt), Pull: v.Pulls,
		Restart: s.restart, Ended: s.ended,
	})
}

// holdUntil is when a container may be started: after its crash backoff and
// after the delay that its last failure to start left.
func (v view) holdUntil(c *corev1.Container, s step) time.Time {
	var until time.Time
	if s.restart {
		until = backoffUntil(v.Memory.Backoff[backoffKey(c.Name, resolve.Hash(c))], s.ended, v.Now)
	}
	if f, ok := v.Memory.Failures[c.Name]; ok && f.Until().After(until) {
		until = f.Until()
	}
	return until
}

// backoffKey names a crash loop: a changed container starts a new one.
func backoffKey(name, hash string) string { return name + "@" + hash }

func (v view) spec(c *corev1.Container, init bool, attempt int) backend.ContainerSpec {
	return backend.ContainerSpec{
		Pod: v.Pod, Container: resolve.Container(c), Init: init, Attempt: attempt, Hash: resolve.Hash(c),
	}
}

// terminal phases are for ever.
func terminal(phase corev1.PodPhase) bool {
	return phase == corev1.PodFailed || phase == corev1.PodSucceeded
}

// grace is what the pod's spec gives its containers to end.
func (v view) grace() time.Duration {
	return seconds(v.Pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
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
