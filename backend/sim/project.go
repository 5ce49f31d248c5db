package sim

import (
	"fmt"
	"slices"
	"time"
)

// run projects a container that starts at begin: its own end, or the end that a
// stop request makes if that comes first. A container that was asked to stop
// before it began never runs.
func (c *container) run(begin time.Time) {
	life := c.program.Life
	c.started, c.finished, c.exitCode, c.oom = begin, time.Time{}, 0, false
	if life.RunFor >= 0 {
		c.finished, c.exitCode, c.oom = begin.Add(life.RunFor), life.ExitCode, life.OOM
		if life.OOM && life.ExitCode == 0 {
			c.exitCode = exitKill
		}
	}
	if !c.stop.asked() {
		return
	}
	if begin.After(c.stop.term) {
		c.started, c.finished, c.exitCode, c.oom = time.Time{}, c.stop.term, exitKill, false
		c.message = "stopped before it started"
		return
	}
	if end, code := c.stopped(); c.finished.IsZero() || end.Before(c.finished) {
		c.finished, c.exitCode, c.oom = end, code, false
	}
}

// stopped is when and how the stop request ends a running container.
func (c *container) stopped() (time.Time, int32) {
	end := c.stop.term.Add(c.program.StopTakes)
	if c.program.IgnoreTerm || !c.stop.kill.After(c.stop.term) || end.After(c.stop.kill) {
		return c.stop.kill, exitKill
	}
	return end, exitTerm
}

// projectContainers projects an attempt whose containers are started one by one:
// it is live until it is asked to end and no container runs.
func (a *attempt) projectContainers(l Latency) {
	var end time.Time
	for _, c := range a.containers {
		c.run(latest(c.created, a.ready).Add(l.Start + c.program.StartAfter))
		end = latest(end, c.finished)
	}
	if a.stop.asked() {
		a.dead = latest(end, a.stop.term).Add(l.Stop)
	}
}

// projectPod projects an attempt that runs as one: pulls, init containers in
// order, then all others; when the last of them has ended, the sidecars are.
func (a *attempt) projectPod(l Latency) {
	a.ready, a.dead, a.reason, a.message = a.created.Add(l.Launch), time.Time{}, "", ""
	pulled := a.ready.Add(l.Pull)
	for _, c := range a.containers {
		c.started, c.finished, c.stop = time.Time{}, time.Time{}, a.stop
		if c.sidecar {
			c.stop = stopRequest{} // until its turn
		}
	}
	if a.cut(pulled) {
		a.dead = a.stop.term.Add(l.Stop)
		return
	}
	if a.failMissing(pulled) {
		a.dead = pulled.Add(l.Stop)
		return
	}
	begin, end, on := a.projectInits(pulled, l)
	if on {
		end = a.projectApps(begin, l)
	}
	if end.IsZero() {
		return
	}
	a.dead = a.endSidecars(end).Add(l.Stop)
}

// endSidecars ends the sidecars after all else has, the last one first, and
// returns when none runs. They have the pod's grace, or what a stop left of its
// own.
func (a *attempt) endSidecars(end time.Time) time.Time {
	kill := end.Add(a.grace)
	switch {
	case !a.stop.asked():
	case a.stop.term.After(end):
		kill = earliest(kill, a.stop.kill)
	default:
		kill = a.stop.kill
	}
	for _, c := range slices.Backward(a.containers) {
		if !c.sidecar || c.started.IsZero() || c.exited(end) {
			continue
		}
		c.stop = stopRequest{term: end, kill: latest(kill, end)}
		c.run(c.started)
		end = latest(end, c.finished)
	}
	return end
}

// cut is true when a stop keeps what would begin at t from beginning.
func (a *attempt) cut(t time.Time) bool { return a.stop.asked() && t.After(a.stop.term) }

// failMissing fails the containers whose image cannot be pulled.
func (a *attempt) failMissing(at time.Time) bool {
	failed := false
	for _, c := range a.containers {
		if !isMissing(c.image) {
			continue
		}
		failed = true
		c.finished, c.reason, c.message = at, "ErrImagePull", pullError(c.image).Error()
		a.reason, a.message = "FailedToStart", fmt.Sprintf("container %s: %s", c.name, c.message)
	}
	return failed
}

// projectInits returns when the app containers may begin, or that they will not
// (on is false) and when the attempt ends instead; zero is not foreseen.
func (a *attempt) projectInits(begin time.Time, l Latency) (next, end time.Time, on bool) {
	for _, c := range a.containers {
		if !c.init {
			continue
		}
		start := begin.Add(l.Start + c.program.StartAfter)
		if a.cut(start) {
			return start, a.allDown(), false
		}
		c.run(start)
		if c.sidecar {
			begin = start
			continue
		}
		if c.finished.IsZero() {
			return start, time.Time{}, false
		}
		if c.exitCode != 0 {
			return start, c.finished, false
		}
		begin = c.finished
	}
	return begin, time.Time{}, true
}

// projectApps starts all app containers and returns the end of the last.
func (a *attempt) projectApps(begin time.Time, l Latency) time.Time {
	var end time.Time
	endless := false
	for _, c := range a.containers {
		if c.init {
			continue
		}
		start := begin.Add(l.Start + c.program.StartAfter)
		if a.cut(start) {
			end = latest(end, a.allDown())
			continue
		}
		c.run(start)
		endless = endless || c.finished.IsZero()
		end = latest(end, c.finished)
	}
	if endless {
		return time.Time{}
	}
	return end
}

// allDown is when everything but sidecars that was started before a stop has
// ended.
func (a *attempt) allDown() time.Time {
	end := a.stop.term
	for _, c := range a.containers {
		if c.sidecar {
			continue
		}
		end = latest(end, c.finished)
	}
	return end
}
