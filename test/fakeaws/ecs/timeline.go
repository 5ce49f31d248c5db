package ecs

import (
	"fmt"
	"slices"
	"time"
)

// life is the whole life of a task, as offsets from its creation. It is derived
// from the definition, so the state at any time is a look-up.
type life struct {
	attached time.Duration
	// pulled is when the last image was.
	pulled time.Duration
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
	// start and end are never for a container that did not run; start is that of the
	// first run where it was restarted.
	start, end time.Duration
	// refused is when it was known that it never will start; depended is true if what
	// it waits for cannot come true any more.
	refused  time.Duration
	depended bool
	// codeless is true if it is shown without a code all the same.
	codeless bool
	exit     int32
	lost     bool // its code is not known: its host failed
	// supervised is true where a supervisor says how it ended.
	supervised bool
	reason     string
	does       *behaviour
	// health are its statuses, at offsets from start.
	health []healthChange
	// each is how long a run takes where it is restarted again and again, else 0.
	each time.Duration
	// digest is that of the image it really runs, restarts how often it was.
	digest   string
	restarts int
}

func (c *containerLife) ran() bool { return c.start != never }

// status is its health at an offset from the task's creation.
func (c *containerLife) status(at time.Duration) string {
	out := unknown
	for _, h := range c.health {
		if c.ran() && at >= sum(c.start, h.at) && c.end > sum(c.start, h.at) {
			out = h.status
		}
	}
	return out
}

// healthyAt is when it was HEALTHY first.
func (c *containerLife) healthyAt() time.Duration {
	for _, h := range c.health {
		if at := sum(c.start, h.at); h.status == healthy && c.ran() && at < c.end {
			return at
		}
	}
	return never
}

// lines are what it writes, at offsets from its start.
func (c *containerLife) lines() lines {
	switch {
	case c.does == nil:
		return prints{}
	case c.each > 0:
		return c.does.again(c.each)
	case c.supervised && c.end != never && !c.lost && !c.does.reports():
		return reported{prints: c.does.prints, end: c.end - c.start, exit: c.exit}
	}
	return c.does.prints
}

// stopCause is a thing that ends a task.
type stopCause struct {
	at           time.Duration
	code, reason string
	// abrupt is true if its host is gone: nothing gets a signal, no code is known.
	abrupt bool
}

func (s *stopCause) earliest(o stopCause) {
	if o.at < s.at {
		*s = o
	}
}

// Stop codes and reasons (ECS API, Task: stopCode, stoppedReason).
const (
	codeEssential = "EssentialContainerExited"
	codeFailed    = "TaskFailedToStart"
	codeUser      = "UserInitiated"
	essentialText = "Essential container in task exited"
)

// plan derives lives.
type plan struct {
	life
	d      *definition
	ov     overrides
	delays Delays
	// pullOf is how long the pull of an image takes.
	pullOf func(image string) time.Duration
	kind   Kindness
	seen   Observed
	// images is when each of them was pulled.
	images map[string]time.Duration
}

// lifeOf derives the life of a task as it was made and as others acted on it.
func lifeOf(t *task, cfg *Config) life {
	delays := cfg.Delays
	p := plan{
		d: t.def, ov: t.ov, delays: delays, pullOf: cfg.pullOf, kind: cfg.Kindness, seen: cfg.Observed,
		images: map[string]time.Duration{},
		life: life{
			attached: delays.Provision, pulled: delays.Provision,
			started: never, stopping: never, deactivated: never, executionStopped: never, stopped: never,
			containers: make([]containerLife, len(t.def.ContainerDefinitions)),
		},
	}
	cause := stopCause{at: never}
	for i := range p.containers {
		p.containers[i] = containerLife{start: never, end: never, refused: never}
	}
	if t.broken != "" {
		// ECS developer guide, "ResourceInitializationError task errors": before any
		// image is pulled.
		cause = stopCause{at: p.attached, code: codeFailed, reason: t.broken}
	} else {
		cause = p.runAll(t)
	}
	cause.earliest(t.user)
	if cause.at != never {
		p.stop(cause)
	}
	p.started = p.allStarted(p.d)
	return p.life
}

// runAll lets all containers run as if nothing stopped the task, and returns what
// would end it first. Anchors, which wait for others, know their end last.
func (p *plan) runAll(t *task) stopCause {
	cause := stopCause{at: never}
	var anchors []int
	for left := slices.Clone(p.d.order); len(left) > 0; {
		i := p.next(left)
		left = slices.DeleteFunc(left, func(j int) bool { return j == i })
		if c := p.run(t, i); p.containers[i].does != nil && p.isAnchor(i) {
			anchors = append(anchors, i)
		} else {
			cause.earliest(c)
		}
	}
	for _, i := range anchors {
		c := &p.containers[i]
		c.end, c.exit = p.waitedFor(i), 0
		if p.d.ContainerDefinitions[i].isEssential() {
			cause.earliest(stopCause{at: c.end, code: codeEssential, reason: essentialText})
		}
	}
	return cause
}

// next is which of those left may start first, of those that wait for none of them.
func (p *plan) next(left []int) int {
	next, first := left[0], never // the order is topological
	for _, i := range left {
		deps := p.d.ContainerDefinitions[i].DependsOn
		if slices.ContainsFunc(deps, func(d dependency) bool { return slices.Contains(left, p.d.index(*d.ContainerName)) }) {
			continue
		}
		if ready, _ := p.dependencies(deps); ready < first {
			next, first = i, ready
		}
	}
	return next
}

// pull is when the image of a container that may start is there: it is pulled only then
// (amazon-ecs-agent, README: ECS_PULL_DEPENDENT_CONTAINERS_UPFRONT, false unless set;
// dependencygraph/graph.go, containerOrderingDependenciesIsResolved). That Fargate's agent
// does the same is undocumented. An image that the task has takes no time.
func (p *plan) pull(image string, ready time.Duration) time.Duration {
	at, ok := p.images[image]
	if !ok {
		if at = ready + p.pullOf(image); p.kind.PullsUpfront {
			at = p.attached + p.pullOf(image)
		}
		p.images[image] = at
		p.pulled = max(p.pulled, at)
	}
	return max(ready, at)
}

// run lets container i run, and returns how it would end the task.
func (p *plan) run(t *task, i int) stopCause {
	def, c := &p.d.ContainerDefinitions[i], &p.containers[i]
	ready, failed := p.dependencies(def.DependsOn)
	if failed <= ready && failed != never {
		c.refuse(def, failed)
		c.exit, c.codeless = p.seen.refusedExit(c.exit)
		if !def.isEssential() || !p.kind.StopsRefused {
			return stopCause{at: never}
		}
		return stopCause{at: failed, code: codeEssential, reason: essentialText}
	}
	if ready == never {
		return stopCause{at: never}
	}
	ready = p.pull(*def.Image, ready)
	if missing(*def.Image) {
		c.reason = cannotPull(*def.Image)
		return stopCause{at: ready, code: codeFailed, reason: c.reason}
	}
	b := p.bounded(t, def, p.behaviour(t, i))
	if p.first(i) {
		b = b.asFirst()
	}
	c.does, c.start, c.end, c.exit = b, ready, sum(ready, b.after), b.exit
	c.supervised = isHelper(argv(def, p.ov), "supervise")
	if b.oom {
		// ECS developer guide, "OutOfMemoryError task errors".
		c.reason = "OutOfMemoryError: Container killed due to memory usage"
	}
	if def.RestartPolicy.restarts(b) {
		c.end, c.each = never, b.after
	}
	if def.HealthCheck != nil {
		c.health = p.d.health(i, b)
	}
	if def.isEssential() && c.end != never {
		return stopCause{at: c.end, code: codeEssential, reason: essentialText}
	}
	return stopCause{at: never}
}

// first is true if the command of container i is its first process: no supervisor starts
// it, nor an init process (ECS API, LinuxParameters: initProcessEnabled), and it shares its
// PID namespace with none that came before it (pidMode).
func (p *plan) first(i int) bool {
	def := &p.d.ContainerDefinitions[i]
	init := def.LinuxParameters != nil && value(def.LinuxParameters.InitProcessEnabled)
	return !p.kind.TermEnds && !init && value(p.d.PidMode) != "task" && !isHelper(argv(def, p.ov), "supervise")
}

// behaviour is what container i does, as far as its log is kept.
func (p *plan) behaviour(t *task, i int) *behaviour {
	b := p.d.behaviour(i, p.argv(i))
	if isMaterializer(p.argv(i)) {
		b = &materialized
		if t.noPayload {
			b = &unmaterialized
		}
	}
	if !p.kind.LogsAtOnce && !p.seen.BlankLines {
		own := *b // what it does is shared by tasks
		own.prints = b.withoutEmpty()
		b = &own
	}
	return b
}

// refuse notes that what a container waits for cannot come true any more. It is STOPPED
// then with the code of a SIGTERM that it never got (amazon-ecs-agent, task_manager.go,
// handleTerminalDependencyError, and dependencygraph/graph.go for the text). Whether its
// task ends with it is undocumented: tasks were seen that stay PENDING.
func (c *containerLife) refuse(def *containerDefinition, at time.Duration) {
	c.refused, c.depended, c.exit = at, true, exitTerm
	c.reason = fmt.Sprintf("CannotStartContainerError: dependency graph: failed to resolve container ordering "+
		"dependency [%s] for target [%s] as dependency did not exit successfully.",
		*def.DependsOn[0].ContainerName, *def.Name)
}

// dependencies is when a container may start, and when it is known that it never
// will (ECS API, ContainerDependency: condition; ContainerDefinition: startTimeout
// is how long others wait for a container, without bound if unset).
func (p *plan) dependencies(deps []dependency) (ready, failed time.Duration) {
	ready, failed = p.attached, never
	for _, dep := range deps {
		i := p.d.index(*dep.ContainerName)
		on, def := &p.containers[i], &p.d.ContainerDefinitions[i]
		at, bad := on.condition(*dep.Condition)
		if def.StartTimeout != nil && *dep.Condition != "START" && on.ran() {
			if limit := on.start + time.Duration(*def.StartTimeout)*time.Second; at > limit {
				bad = min(bad, limit)
			}
		}
		ready, failed = max(ready, at), min(failed, bad)
	}
	return ready, failed
}

// condition is when a condition on a container came true, and when it was known
// that it will not (never: it may still).
func (c *containerLife) condition(name string) (met, failed time.Duration) {
	switch name {
	case "START":
		return c.start, c.refused
	case "COMPLETE":
		return min(c.end, c.refused), never
	case "SUCCESS":
		if c.end != never && c.exit != 0 {
			return never, c.end
		}
		return c.end, c.refused
	default: // HEALTHY
		at := c.healthyAt()
		if at == never {
			return never, min(c.end, c.refused)
		}
		return at, never
	}
}

// stop ends what runs: SIGTERM, stopTimeout, SIGKILL, in the reverse order of
// dependsOn (ECS API, StopTask; ContainerDefinition: dependsOn, stopTimeout).
func (p *plan) stop(cause stopCause) {
	p.stopping, p.stopCode, p.reason = cause.at, cause.code, cause.reason
	p.deactivated = cause.at + p.delays.Deactivate
	p.executionStopped = p.deactivated
	for k := len(p.d.order) - 1; k >= 0; k-- {
		i := p.d.order[k]
		c := &p.containers[i]
		if c.refused > cause.at && c.depended {
			*c = containerLife{start: never, end: never, refused: never}
		}
		if c.start > cause.at {
			c.start, c.end = never, never
			continue
		}
		switch {
		case c.end <= cause.at:
		case cause.abrupt:
			c.end, c.lost, c.reason = cause.at, true, ""
		default:
			p.end(i)
		}
		p.executionStopped = max(p.executionStopped, c.end)
	}
	p.stopped = p.executionStopped + p.delays.Deprovision
}

// end stops container i, once those that depend on it have ended.
func (p *plan) end(i int) {
	c, def := &p.containers[i], &p.d.ContainerDefinitions[i]
	term := p.deactivated
	for j := range p.d.ContainerDefinitions {
		other := &p.containers[j]
		on := slices.ContainsFunc(
			p.d.ContainerDefinitions[j].DependsOn, func(d dependency) bool { return *d.ContainerName == *def.Name },
		)
		if on && other.ran() {
			term = max(term, other.end)
		}
	}
	if c.end > term {
		c.end, c.exit = c.kill(term, def.StopTimeout)
		if c.end < sum(c.start, c.does.after) {
			c.reason = ""
		}
	}
}

// kill is the end and code of a container that gets SIGTERM at term.
func (c *containerLife) kill(term time.Duration, timeout *int32) (time.Duration, int32) {
	grace := time.Duration(or(timeout, defaultStopSecond)) * time.Second
	end := c.end
	if c.each > 0 { // of the run it is in: it is not restarted any more
		end = c.start + (term-c.start+c.each-1)/c.each*c.each
	}
	switch {
	case !c.does.ignoresTerm:
		return term, c.does.termExit
	case end <= term+grace:
		return end, c.does.exit
	default:
		return term + grace, exitKill
	}
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

// allStarted is when all containers had started, never if some have not. One that
// nothing needs and that never will start is not waited for.
func (l *life) allStarted(d *definition) time.Duration {
	var at time.Duration
	for i := range l.containers {
		if c := &l.containers[i]; c.refused == never || d.ContainerDefinitions[i].isEssential() {
			at = max(at, c.start)
		}
	}
	return at
}

// changes are the instants at which something of the task changes, in order.
func (l *life) changes() []time.Duration {
	all := []time.Duration{0, l.attached, l.started, l.stopping, l.deactivated, l.executionStopped, l.stopped}
	for i := range l.containers {
		all = append(all, l.containers[i].start, l.containers[i].end, l.containers[i].refused)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for len(all) > 0 && all[len(all)-1] == never {
		all = all[:len(all)-1]
	}
	for len(all) > 0 && all[len(all)-1] > l.stopped {
		all = all[:len(all)-1]
	}
	return all
}
