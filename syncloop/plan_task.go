package syncloop

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// syncTask is for backends whose unit of restart is the pod: launch it whole,
// and when a container must be restarted, end the attempt and launch the next.
//
//	no attempt                       launch
//	live                             wait; stop it once a container's backoff is over
//	ended, some container restarts   launch the next attempt after the backoff
//	ended, none restarts             the pod has ended
func (v view) syncTask(p *Plan) {
	restart, failed := v.taskOutcome()
	if v.sandbox() != nil {
		if restart {
			v.stopForRestart(p)
		}
		return
	}
	if failed || v.allDone() {
		p.Kill = &Kill{Deadline: v.Now}
		return
	}
	if until := v.taskHold(); v.Now.Before(until) {
		p.wake(until)
		if _, ran := v.taskEnd(); !ran {
			if half := v.taskHalf(); v.Now.Before(half) {
				p.wake(half)
			}
		}
		return
	}
	v.launch(p)
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

// taskOutcome tells whether some container that ended must be restarted, and
// whether an init container failed for good.
func (v view) taskOutcome() (restart, failed bool) {
	if v.newest == nil {
		return false, false
	}
	for i := range v.Pod.Spec.InitContainers {
		c := &v.Pod.Spec.InitContainers[i]
		cur := v.current(c.Name)
		if cur == nil || cur.pod != v.newest || !v.exited(cur) || cur.NeverRan() {
			continue
		}
		if s := v.step(c, true); s.verb == finished && s.code != 0 {
			failed = true
		}
	}
	for i := range v.Pod.Spec.Containers {
		c := &v.Pod.Spec.Containers[i]
		cur := v.current(c.Name)
		restart = restart || cur != nil && cur.pod == v.newest && v.step(c, false).restart
	}
	return restart, failed
}

// stopForRestart ends a live attempt in which a container crashed, once the
// crash loop's delay has passed.
func (v view) stopForRestart(p *Plan) {
	if until := v.taskHold(); v.Now.Before(until) {
		p.wake(until)
		return
	}
	v.stop(p, v.newest, v.Now.Add(v.grace()))
}

// taskHold is when the next attempt may be launched. One that never ran (its
// image could not be pulled) waits at least the first delay.
func (v view) taskHold() time.Time {
	if v.newest == nil {
		return time.Time{}
	}
	ended, ran := v.taskEnd()
	b := v.Memory.Backoff[podKey]
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
func (v view) specs() []backend.ContainerSpec {
	var specs []backend.ContainerSpec
	add := func(cs []corev1.Container, init bool) {
		for i := range cs {
			specs = append(specs, v.spec(&cs[i], init, v.taskAttempt(&cs[i], init)))
		}
	}
	add(v.Pod.Spec.InitContainers, true)
	add(v.Pod.Spec.Containers, false)
	return specs
}

func (v view) taskAttempt(c *corev1.Container, init bool) int {
	prior := v.prior(c.Name, init)
	count := 0
	if prior != nil {
		count = int(prior.RestartCount)
	}
	cur := v.current(c.Name)
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
