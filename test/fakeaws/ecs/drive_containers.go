package ecs

import (
	"context"
	"slices"
	"time"
)

// startDue starts the containers whose dependencies are met, and refuses those
// whose cannot be any more. It returns when one may have to be looked at again.
func (d *driver) startDue(ctx context.Context, now time.Duration) time.Duration {
	next := never
	for _, i := range d.t.def.order {
		c, p := &d.t.life.containers[i], &d.parts[i]
		if c.ran() || c.refused != never || p.starting {
			continue
		}
		def := &d.t.def.ContainerDefinitions[i]
		ready, failed := (&plan{d: d.t.def, life: d.t.life}).dependencies(def.DependsOn)
		switch {
		case failed <= now:
			c.refuse(def, now)
			if def.isEssential() && d.s.cfg.Kindness.StopsRefused { // as in plan.run
				d.s.stopNow(d.t, stopCause{code: codeEssential, reason: essentialText})
				return never
			}
			d.s.changed(d.t)
		case ready > now:
			next = min(next, failed)
		default:
			d.start(ctx, i)
		}
	}
	return next
}

// start pulls the image of a container, if the task does not have it, and starts a run:
// see plan.pull.
func (d *driver) start(ctx context.Context, i int) {
	d.parts[i].starting = true
	d.busy++
	spec := d.parts[i].spec
	spec.Run = d.t.life.containers[i].restarts
	go func() {
		if err := d.pull(ctx, i); err != nil {
			d.note(func(time.Duration) { d.unpulled(i, err) })
			return
		}
		running, err := d.run.Run(ctx, spec)
		d.note(func(now time.Duration) { d.started(ctx, i, running, err, now) })
	}()
}

// unpulled ends the task of a container whose image cannot be had.
func (d *driver) unpulled(i int, err error) {
	d.parts[i].starting = false
	d.busy--
	if d.t.life.stopping != never {
		return
	}
	reason := "CannotPullContainerError: pull image manifest has been retried 1 time(s): " + err.Error()
	d.t.life.containers[i].reason = reason
	d.s.stopNow(d.t, stopCause{code: codeFailed, reason: reason})
}

func (d *driver) started(ctx context.Context, i int, running RunningContainer, err error, now time.Duration) {
	c, p, def := &d.t.life.containers[i], &d.parts[i], &d.t.def.ContainerDefinitions[i]
	p.starting = false
	d.busy--
	if err != nil {
		// ECS developer guide, "CannotStartContainer task errors": it has no exit code.
		c.reason = "CannotStartContainerError: " + err.Error()
		if c.ran() {
			c.end, c.lost = now, true
		} else {
			c.refused = now
		}
		if def.isEssential() {
			d.s.stopNow(d.t, stopCause{code: codeFailed, reason: c.reason})
		}
		return
	}
	p.running, p.since = running, now
	if !c.ran() {
		c.start = now
	}
	watch, cancel := context.WithCancel(ctx)
	p.unwatched = cancel
	if def.HealthCheck != nil {
		c.health = append(c.health, healthChange{now - c.start, unknown})
		d.busy++
		go d.watch(watch, i, running)
	}
	d.busy++
	go func() {
		exit, err := running.Wait(watch)
		d.note(func(now time.Duration) { d.ended(ctx, i, exit, err, now) })
	}()
}

// ended follows the end of a run (ECS API, ContainerDefinition: essential,
// restartPolicy).
func (d *driver) ended(ctx context.Context, i int, exit Exit, err error, now time.Duration) {
	c, p, def := &d.t.life.containers[i], &d.parts[i], &d.t.def.ContainerDefinitions[i]
	d.busy--
	p.running = nil
	p.unwatched()
	if c.end != never { // its host is gone
		return
	}
	if err == nil && d.t.life.stopping == never && def.RestartPolicy.again(exit, now-p.since) {
		c.restarts++
		d.start(ctx, i)
		return
	}
	c.end, c.exit, c.lost = now, exit.Code, err != nil
	switch {
	case err != nil:
		// ECS developer guide, "CannotInspectContainerError": it has no exit code.
		c.reason = "CannotInspectContainerError: " + err.Error()
	case exit.OOM:
		// ECS developer guide, "OutOfMemoryError task errors".
		c.reason = "OutOfMemoryError: Container killed due to memory usage"
	}
	if def.isEssential() {
		d.s.stopNow(d.t, stopCause{code: codeEssential, reason: essentialText})
	}
}

// again is true if a container is restarted after a run (see restarts).
func (r *restartPolicy) again(exit Exit, ran time.Duration) bool {
	if r == nil || !value(r.Enabled) || exit.OOM && !restartsAfterOOM {
		return false
	}
	period := time.Duration(or(r.RestartAttemptPeriod, stdRestartPeriod)) * time.Second
	return ran >= period && !slices.Contains(r.IgnoredExitCodes, exit.Code)
}

// stopDue stops what runs, those first on which nothing depends that still runs
// (see plan.stop). It returns when one may have to be looked at again.
func (d *driver) stopDue(ctx context.Context, now time.Duration) time.Duration {
	l := &d.t.life
	if d.abrupt {
		for i := range d.parts {
			if c, p := &l.containers[i], &d.parts[i]; p.running != nil && c.end == never {
				c.end, c.lost = now, true
				d.kill(ctx, i, 0)
			}
		}
	}
	if at := l.stopping + d.s.cfg.Delays.Deactivate; at > now {
		return at
	}
	if l.deactivated == never {
		l.deactivated = now
		d.s.changed(d.t)
	}
	for i := range d.parts {
		if p := &d.parts[i]; p.running != nil && !p.ending && (d.abrupt || !d.needed(i)) {
			grace := or(d.t.def.ContainerDefinitions[i].StopTimeout, defaultStopSecond)
			d.kill(ctx, i, time.Duration(grace)*time.Second)
		}
	}
	return never
}

// needed is true while a container that depends on container i runs or starts.
func (d *driver) needed(i int) bool {
	name := *d.t.def.ContainerDefinitions[i].Name
	for j := range d.parts {
		on := slices.ContainsFunc(
			d.t.def.ContainerDefinitions[j].DependsOn, func(dep dependency) bool { return *dep.ContainerName == name },
		)
		if on && (d.parts[j].running != nil || d.parts[j].starting) {
			return true
		}
	}
	return false
}

// kill stops a run of a container.
func (d *driver) kill(ctx context.Context, i int, grace time.Duration) {
	p := &d.parts[i]
	running := p.running
	p.ending = true
	d.busy++
	go func() {
		err := running.Stop(ctx, grace)
		d.note(func(now time.Duration) {
			d.busy--
			if c := &d.t.life.containers[i]; err != nil && c.end == never {
				c.end, c.lost, c.reason = now, true, "CannotStopContainerError: "+err.Error()
				p.unwatched() // nobody waits for it any more
			}
		})
	}()
}

// watch does the health checks of a run (ECS API, HealthCheck, with docker's rules:
// see healthCheck.changes).
func (d *driver) watch(ctx context.Context, i int, running RunningContainer) {
	defer d.note(func(time.Duration) { d.busy-- })
	h := d.t.def.ContainerDefinitions[i].HealthCheck
	interval := time.Duration(or(h.Interval, stdInterval)) * time.Second
	timeout := time.Duration(or(h.Timeout, stdCheck)) * time.Second
	start, grace := time.Now(), time.Duration(value(h.StartPeriod))*time.Second
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for failures := 0; ; timer.Reset(interval) {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		code, err := running.Exec(ctx, h.argv(), timeout)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && code == 0:
			failures, grace = 0, 0
			d.showHealth(i, healthy)
		case time.Since(start) >= grace:
			if failures++; failures >= int(or(h.Retries, stdRetries)) {
				d.showHealth(i, unhealthy)
			}
		}
	}
}

func (h *healthCheck) argv() []string {
	if h.Command[0] == "CMD-SHELL" {
		return []string{"/bin/sh", "-c", h.Command[1]}
	}
	return h.Command[1:]
}

func (d *driver) showHealth(i int, status string) {
	d.note(func(now time.Duration) {
		c := &d.t.life.containers[i]
		if c.health[len(c.health)-1].status != status && c.end == never {
			c.health = append(c.health, healthChange{now - c.start, status})
		}
	})
}
