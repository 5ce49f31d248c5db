package ecs

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/log"
)

// removeTimeout bounds the removal of a task when its server is closed.
const removeTimeout = 3 * time.Minute

// driver lives the life of a task whose containers a Runner runs: it does what the
// ECS agent does and writes what happened into the task's life. Its members but the
// channels are guarded by the server's lock.
type driver struct {
	s *Server
	t *task
	// poke tells the loop that something changed; halt is closed when the task is to
	// end.
	poke, halt chan struct{}
	run        RunningTask // nil before its network is there
	abrupt     bool        // its host is gone
	busy       int         // calls of the runner under way
	parts      []part      // by container
	images     map[string]*imagePull
}

// part is a container as its driver knows it.
type part struct {
	spec      ContainerSpec
	starting  bool
	running   RunningContainer // nil while no run of it runs
	since     time.Duration    // when the run started
	ending    bool             // it was told to stop
	unwatched context.CancelFunc
	usage     Usage // as it was shown last
}

// launch starts to drive a task.
func (s *Server) launch(t *task) {
	t.driver = &driver{
		s: s, t: t, poke: make(chan struct{}, 1), halt: make(chan struct{}),
		parts:  make([]part, len(t.def.ContainerDefinitions)),
		images: map[string]*imagePull{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.life = unlived(t.def)
	if t.role() != "" {
		s.byKey[t.accessKey()] = t
	}
	s.driving.Add(1)
	go func() {
		defer s.driving.Done()
		defer cancel()
		t.driver.live(ctx)
	}()
	go func() { // its end is that of the goroutine above, or Close
		select {
		case <-s.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
}

// Close ends all tasks that a Runner runs, at once, and returns when they are
// removed. No call may be made after it.
func (s *Server) Close() {
	close(s.closing)
	s.driving.Wait()
}

// unlived is the life of a task of which nothing has happened.
func unlived(d *definition) life {
	l := life{
		attached: never, pulled: never, started: never, stopping: never, deactivated: never, executionStopped: never,
		stopped:    never,
		containers: make([]containerLife, len(d.ContainerDefinitions)),
	}
	for i := range l.containers {
		l.containers[i] = containerLife{start: never, end: never, refused: never}
	}
	return l
}

// changed follows a change of a driven task's life.
func (s *Server) changed(t *task) {
	if t.life.started == never && t.life.stopping == never {
		t.life.started = t.life.allStarted(t.def)
	}
	if t.life.stopped != never {
		s.due(t.created.Add(t.life.stopped).Add(stoppedMemory))
	}
	s.eventsDue(t)
	s.wake()
	select {
	case t.driver.poke <- struct{}{}:
	default:
	}
}

// stopNow makes a driven task end, unless it is ending.
func (s *Server) stopNow(t *task, cause stopCause) {
	l := &t.life
	if l.stopping != never {
		return
	}
	l.stopping, l.stopCode, l.reason = s.age(t), cause.code, cause.reason
	t.driver.abrupt = cause.abrupt
	close(t.driver.halt)
	s.changed(t)
}

// live is a task's whole life.
func (d *driver) live(ctx context.Context) {
	if d.attach(ctx) && d.s.cfg.Kindness.PullsUpfront {
		d.pullAll(ctx)
	}
	d.loop(ctx)
	d.finish(ctx)
}

// note writes something into the task's life.
func (d *driver) note(change func(now time.Duration)) {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	change(d.s.age(d.t))
	d.s.changed(d.t)
}

// pause waits, and returns false if the task is to end meanwhile.
func (d *driver) pause(ctx context.Context, delay time.Duration) bool {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-d.halt:
		return false
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// attach makes the network interface and what else the containers share. Whether
// secrets and log groups are there is settled first (ECS developer guide,
// "ResourceInitializationError task errors").
func (d *driver) attach(ctx context.Context) bool {
	if !d.pause(ctx, d.s.cfg.Delays.Provision) {
		return false
	}
	var spec TaskSpec
	broken := false
	d.note(func(now time.Duration) {
		d.s.resolve(d.t)
		d.s.openStreams(d.t)
		spec = d.s.taskSpec(d.t)
		d.specify()
		if broken = d.t.broken != ""; broken {
			d.t.life.attached = now
			d.s.stopNow(d.t, stopCause{code: codeFailed, reason: d.t.broken})
		}
	})
	if broken {
		return false
	}
	run, err := d.s.cfg.Runner.Start(ctx, spec)
	d.note(func(now time.Duration) {
		d.t.life.attached = now
		if err != nil {
			d.s.stopNow(d.t, stopCause{code: codeFailed, reason: "ResourceInitializationError: " + err.Error()})
			return
		}
		d.run, d.t.ip = run, run.Address()
	})
	return err == nil
}

// loop runs the containers until the task is to end and none runs.
func (d *driver) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if ctx.Err() != nil {
			d.note(func(now time.Duration) {
				d.s.stopNow(d.t, stopCause{code: "InfrastructureHealth", reason: "the server was closed"})
				d.abrupt, d.t.life.deactivated = true, min(d.t.life.deactivated, now)
			})
			ctx = context.WithoutCancel(ctx)
		}
		next, done := d.step(ctx)
		if done {
			return
		}
		timer.Reset(next)
		select {
		case <-d.poke:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// idle is how long the loop waits where nothing is due.
const idle = time.Hour

// step starts or stops what is due. It returns when something is due next, and true
// if the task is to end and nothing of it runs.
func (d *driver) step(ctx context.Context) (next time.Duration, done bool) {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	now := d.s.age(d.t)
	next = sum(now, idle)
	if d.t.life.stopping == never {
		next = min(next, d.startDue(ctx, now))
	}
	if d.t.life.stopping != never {
		next = min(next, d.stopDue(ctx, now))
	}
	done = d.t.life.deactivated != never && d.busy == 0
	for i := range d.parts {
		done = done && d.parts[i].running == nil
	}
	return next - now, done
}

// finish removes what is left of the task.
func (d *driver) finish(ctx context.Context) {
	d.note(func(now time.Duration) {
		d.t.life.executionStopped = now
	})
	if d.run != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
		defer cancel()
		if err := d.run.Remove(ctx); err != nil {
			log.G(ctx).WithError(fmt.Errorf("remove task: %w", err)).WithField("task", d.t.arn).Error("task not removed")
		}
	}
	timer := time.NewTimer(d.s.cfg.Delays.Deprovision)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	d.note(func(now time.Duration) { d.t.life.stopped = now })
}
