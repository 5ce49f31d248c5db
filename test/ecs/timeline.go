package ecs

import (
	"fmt"
	"path"
	"strings"
	"time"
)

// life is the whole life of a task, as offsets from its creation. It is derived
// from the definition, so the state at any time is a look-up.
type life struct {
	attached, pulled time.Duration
	// started is when every container had started (ECS developer guide, "Task
	// lifecycle": RUNNING). While init containers run the task is PENDING:
	// undocumented.
	started time.Duration
	// stopping is when the desired status became STOPPED.
	stopping time.Duration
	// deactivated is when SIGTERM is sent.
	deactivated time.Duration
	// executionStopped is when the last container ended.
	executionStopped time.Duration
	stopped          time.Duration
	stopCode, reason string
	containers       []containerLife
}

type containerLife struct {
	start, end time.Duration
	exit       int32
	reason     string
}

func (c containerLife) ran() bool { return c.start != never }

// stopCause is a thing that ends a task.
type stopCause struct {
	at           time.Duration
	code, reason string
}

func (s *stopCause) earliest(o stopCause) {
	if o.at < s.at {
		*s = o
	}
}

// lifeOf derives the life of a task that a user stops at user (never: nobody).
func lifeOf(d *definition, ov overrides, delays Delays, user stopCause) life {
	l := life{
		attached: delays.Provision, pulled: delays.Provision + delays.Pull,
		started: never, stopping: never, deactivated: never, executionStopped: never, stopped: never,
		containers: make([]containerLife, len(d.ContainerDefinitions)),
	}
	cause := stopCause{at: never}
	for _, i := range d.order {
		cause.earliest(l.run(d, i, argv(d.ContainerDefinitions[i], ov)))
	}
	cause.earliest(user)
	if cause.at != never {
		l.stop(d, ov, cause, delays)
	}
	l.started = 0
	for _, c := range l.containers {
		l.started = max(l.started, c.start)
	}
	return l
}

// run lets container i run as if nothing stopped the task, and returns how it
// would end the task.
func (l *life) run(d *definition, i int, args []string) stopCause {
	def, c := d.ContainerDefinitions[i], &l.containers[i]
	c.start, c.end = never, never
	ready, failed := l.dependencies(d, def.DependsOn)
	if failed != never {
		// ECS API, ContainerDependency: SUCCESS that does not come. The task ends as
		// if the dependent had exited: which stop code it gets is undocumented.
		return stopCause{failed, "EssentialContainerExited", "Essential container in task exited"}
	}
	if ready == never {
		return stopCause{at: never}
	}
	if missing(*def.Image) {
		// ECS developer guide, "CannotPullContainer task errors in Amazon ECS".
		c.reason = fmt.Sprintf("CannotPullContainerError: pull image manifest has been retried 1 time(s): "+
			"failed to resolve ref %s: %s: not found", *def.Image, *def.Image)
		return stopCause{ready, "TaskFailedToStart", c.reason}
	}
	b := interpret(args)
	c.start, c.end, c.exit = ready, sum(ready, b.after), b.exit
	if def.isEssential() && c.end != never {
		// ECS API, Task: stopCode, stoppedReason.
		return stopCause{c.end, "EssentialContainerExited", "Essential container in task exited"}
	}
	return stopCause{at: never}
}

// dependencies is when a container may start, and when it is known that it never
// will because a container that must succeed did not.
func (l *life) dependencies(d *definition, deps []dependency) (ready, failed time.Duration) {
	ready, failed = l.pulled, never
	for _, dep := range deps {
		on := l.containers[d.index(*dep.ContainerName)]
		switch *dep.Condition {
		case "START":
			ready = max(ready, on.start)
		case "COMPLETE":
			ready = max(ready, on.end)
		case "SUCCESS":
			ready = max(ready, on.end)
			if on.end != never && on.exit != 0 {
				failed = min(failed, on.end)
			}
		}
	}
	return ready, failed
}

// stop ends what runs: SIGTERM, stopTimeout, SIGKILL, in the reverse order of
// dependsOn (ECS API, StopTask; ContainerDefinition: dependsOn, stopTimeout).
func (l *life) stop(d *definition, ov overrides, cause stopCause, delays Delays) {
	l.stopping, l.stopCode, l.reason = cause.at, cause.code, cause.reason
	l.deactivated = cause.at + delays.Deactivate
	l.executionStopped = l.deactivated
	for k := len(d.order) - 1; k >= 0; k-- {
		i := d.order[k]
		c, def := &l.containers[i], d.ContainerDefinitions[i]
		if c.start > cause.at {
			c.start, c.end = never, never
			continue
		}
		term := l.deactivated
		for j, other := range d.ContainerDefinitions {
			for _, dep := range other.DependsOn {
				if *dep.ContainerName == *def.Name && l.containers[j].ran() {
					term = max(term, l.containers[j].end)
				}
			}
		}
		if c.end > term {
			c.end, c.exit = kill(interpret(argv(def, ov)), c.end, term, def.StopTimeout)
		}
		l.executionStopped = max(l.executionStopped, c.end)
	}
	l.stopped = l.executionStopped + delays.Deprovision
}

// kill is the end and code of a container that would end at end and gets SIGTERM
// at term.
func kill(b behaviour, end, term time.Duration, timeout *int32) (time.Duration, int32) {
	grace := defaultStopSecond * time.Second
	if timeout != nil {
		grace = time.Duration(*timeout) * time.Second
	}
	switch {
	case !b.ignoresTerm:
		return term, b.termExit
	case end <= term+grace:
		return end, b.exit
	default:
		return term + grace, exitKill
	}
}

func (d *definition) index(name string) int {
	for i, c := range d.ContainerDefinitions {
		if *c.Name == name {
			return i
		}
	}
	return -1 // cannot be: checked at registration
}

// argv is what a container would execute.
func argv(c containerDefinition, ov overrides) []string {
	cmd := c.Command
	for _, o := range ov.ContainerOverrides {
		if value(o.Name) == *c.Name && o.Command != nil {
			cmd = o.Command
		}
	}
	return append(append([]string{}, c.EntryPoint...), cmd...)
}

// missing is true for images that no registry has: by this server's convention
// those with "missing" or "not-found" in the last part of their name.
func missing(image string) bool {
	base := path.Base(image)
	return strings.Contains(base, "missing") || strings.Contains(base, "not-found")
}

// status is the task's lastStatus at an offset (ECS developer guide, "Task
// lifecycle"; ACTIVATING is not shown, as Fargate does: undocumented).
func (l *life) status(now time.Duration) string {
	switch {
	case now >= l.stopped:
		return "STOPPED"
	case now >= l.executionStopped:
		return "DEPROVISIONING"
	case now >= l.deactivated:
		return "STOPPING"
	case now >= l.stopping:
		return "DEACTIVATING"
	case now >= l.started:
		return "RUNNING"
	case now >= l.attached:
		return "PENDING"
	default:
		return "PROVISIONING"
	}
}
