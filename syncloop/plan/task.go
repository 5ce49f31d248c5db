package plan

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/images"
	"github.com/burstlet/burstlet/syncloop/resolve"
)

// syncTask is for backends whose unit of restart is the pod: launch it whole,
// and when a container must be restarted, end the attempt and launch the next.
//
//	no attempt                       launch
//	live                             wait; stop it once a container's backoff is over
//	ended, some container restarts   launch the next attempt after the backoff
//	ended, none restarts             the pod has ended
func (v view) syncTask(p *Plan) {
	if order, ordered := v.replacement(); ordered {
		p.terminate(podKey, order)
	}
	restart, failed := v.taskOutcome()
	if v.sandbox() != nil {
		v.placed(p) // what it mounts stays up to date; nobody waits for that
		v.refreshed(p)
		v.postStarts(p)
		if restart && !v.allDone() {
			v.stopForRestart(p)
		}
		return
	}
	if failed || v.allDone() {
		p.Termination = &TerminationOrder{Deadline: v.Now}
		return
	}
	v.recordNeverRan(p)
	if until := v.taskHold(); v.Now.Before(until) {
		p.Wake(until)
		if _, ran := v.taskEnd(); !ran {
			if half := v.taskHalf(); v.Now.Before(half) {
				p.Wake(half)
			}
		}
		return
	}
	v.launch(p)
}

// recordNeverRan records in the kubelet's words why the remote could not start containers of
// the last attempt.
func (v view) recordNeverRan(p *Plan) {
	for _, m := range v.all() {
		c := v.current(m.Name)
		if c == nil || c.Pod != v.newest || !c.NeverRan() || c.Reason == "" {
			continue
		}
		if images.PullFailed(c.Reason) {
			p.recordOf(m.Name, corev1.EventTypeWarning, "Failed", fmt.Sprintf("Failed to pull image %q: %s", m.Image, c.Message))
			p.recordOf(m.Name, corev1.EventTypeWarning, "Failed", "Error: "+c.Reason)
			continue
		}
		p.recordOf(m.Name, corev1.EventTypeWarning, "Failed", "Error: "+c.Message)
	}
}

// taskHalf is when the wait for the next attempt is half over, or has been.
func (v view) taskHalf() time.Time {
	until := v.taskHold()
	if until.IsZero() {
		return v.Now
	}
	ended, _ := v.taskEnd()
	return until.Add(-until.Sub(ended) / 2)
}

// taskOutcome says whether some container that ended must be restarted, or one
// that runs must end (its image changed, a probe failed), and whether an init
// container failed for good.
func (v view) taskOutcome() (restart, failed bool) {
	if v.newest == nil {
		return false, false
	}
	for _, m := range v.all() {
		cur := v.current(m.Name)
		switch {
		case cur == nil || cur.Pod != v.newest:
		case m.role == initRole:
			failed = failed || v.initFailed(m, cur)
		default:
			restart = restart || v.step(m).restart || v.mustRestart(m, cur)
		}
	}
	return restart, failed
}

// initFailed is true for an init container that ended otherwise than with 0, for
// good.
func (v view) initFailed(m podContainer, cur *ContainerAttempt) bool {
	if !v.exited(cur) || cur.NeverRan() {
		return false
	}
	s := v.step(m)
	return s.verb == finished && s.code != 0
}

// mustRestart is true for a running container that must end.
func (v view) mustRestart(m podContainer, cur *ContainerAttempt) bool {
	if v.exited(cur) || cur.State() != backend.Running {
		return false
	}
	_, must := v.mustEnd(m, cur)
	return must
}

// changed is true when the live attempt was made from another spec: the next is
// not part of its crash loop.
func (v view) changed() bool {
	for _, m := range v.all() {
		cur := v.current(m.Name)
		if cur != nil && cur.Pod == v.newest && cur.Hash != "" && cur.Hash != resolve.Hash(m.Container) {
			return true
		}
	}
	return false
}

// replacement is the order to replace the attempt because the spec changed; it
// stays until the next attempt is there.
func (v view) replacement() (ContainerTermination, bool) {
	if v.newest == nil {
		return ContainerTermination{}, false
	}
	order := v.Memory.Terminations[podKey]
	if order.Replace && order.ID == attemptID(v.newest) {
		return order, true
	}
	return ContainerTermination{ID: attemptID(v.newest), Replace: true}, v.sandbox() != nil && v.changed()
}

// loopKey names the crash loop of the pod as its spec is now.
func (v view) loopKey() string {
	key := podKey
	for _, m := range v.all() {
		key += loopOf(m)
	}
	return key
}

// stopForRestart ends a live attempt in which a container crashed, once the
// crash loop's delay has passed.
func (v view) stopForRestart(p *Plan) {
	if until := v.taskHold(); v.Now.Before(until) && !v.changed() {
		p.Wake(until)
		return
	}
	order, ordered := v.Memory.Terminations[taskTermination]
	if !ordered || order.ID != attemptID(v.newest) {
		order = ContainerTermination{ID: attemptID(v.newest), Deadline: v.Now.Add(v.restartGrace())}
	}
	p.terminate(taskTermination, order)
	if !v.hooksFirst(p, v.newest, order.Deadline) {
		v.stop(p, v.newest, order.Deadline)
	}
}

// taskTermination stands, among the orders to end single containers, for the attempt
// that ends to be made again; podKey there says that its spec changed.
const taskTermination = "\x00attempt"

// restartGrace is what an attempt gets that is to be made again: the shortest
// that a failed probe of it gives, or the pod's.
func (v view) restartGrace() time.Duration {
	grace := v.grace()
	for _, m := range v.all() {
		cur := v.current(m.Name)
		if cur == nil || cur.Pod != v.newest || cur.State() != backend.Running {
			continue
		}
		if order, must := v.mustEnd(m, cur); must {
			grace = min(grace, order.Deadline.Sub(v.Now))
		}
	}
	return grace
}

// taskHold is when the next attempt may be launched. One that never ran (its
// image could not be pulled) waits at least the first delay.
func (v view) taskHold() time.Time {
	if v.newest == nil {
		return time.Time{}
	}
	ended, ran := v.taskEnd()
	b := v.Memory.Backoff[v.loopKey()]
	if !ran {
		b.Delay, b.Last = max(b.Delay, crashInitial), ended
	}
	return backoffUntil(b, ended, v.Now)
}

// taskEnd is when the newest attempt ended, or its first container did, and
// whether any of its containers ever ran.
func (v view) taskEnd() (ended time.Time, ran bool) {
	ended = v.newest.StoppedAt
	for _, c := range v.newest.Containers {
		if c.State() == backend.Exited && (ended.IsZero() || c.FinishedAt.Before(ended)) {
			ended = c.FinishedAt
		}
		ran = ran || !c.StartedAt.IsZero()
	}
	return ended, ran
}

// specs are all containers for the next attempt. A container's attempt is its
// restart count: it grows by one for each time that the container ran.
func (v view) specs(p *Plan) ([]backend.ContainerSpec, bool) {
	var specs []backend.ContainerSpec
	for _, list := range [][]podContainer{v.inits, v.apps} {
		for _, m := range list {
			spec, ok := v.spec(p, m, v.taskAttempt(m))
			if !ok {
				return nil, false
			}
			specs = append(specs, spec)
		}
	}
	return specs, true
}

func (v view) taskAttempt(m podContainer) int {
	prior := v.prior(m)
	count := 0
	if prior != nil {
		count = int(prior.RestartCount)
	}
	cur := v.current(m.Name)
	switch {
	case cur != nil && cur.StartedAt.IsZero():
		return max(count, cur.ContainerFacts.Attempt)
	case cur != nil:
		return max(count, cur.ContainerFacts.Attempt+1)
	case ran(prior):
		return count + 1
	}
	return count
}
