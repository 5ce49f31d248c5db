package intask

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// minGrace remains for a container after its preStop hook (kubelet:
// minimumGracePeriodInSeconds).
const minGrace = 2 * time.Second

// ending is how far the end of a container has come.
type ending struct {
	begun bool
	// deadline is when it is killed, and before that a hook cut off.
	deadline time.Time
	timer    *time.Timer
	// latest is the deadline that was set from outside, of an end that may not have
	// begun; zero without one.
	latest time.Time
	// cut ends the preStop hook that runs; nil: there is none.
	cut context.CancelFunc
}

// watch sees to a container that runs: its hooks, its probes, and its end. It
// returns when it has ended.
func (s *supervisor) watch(ctx context.Context, signals <-chan os.Signal) error {
	all, endAll := context.WithCancel(ctx)
	defer endAll()
	lively, notLively := context.WithCancel(all)
	defer notLively()
	end := func(grace time.Duration) {
		notLively()
		s.end(all, grace)
	}
	begun := time.Now()
	probe := func() { s.probe(all, lively, begun) }
	s.ending.timer = time.NewTimer(time.Hour)
	s.ending.timer.Stop()
	if err := s.begin(lively, probe); err != nil {
		return err
	}
	for {
		select {
		case <-s.main.done:
			s.ending.timer.Stop()
			return nil
		case sig := <-signals:
			s.received(sig, end)
		case failure := <-s.hooked:
			if lively.Err() == nil {
				s.postStarted(failure, probe, end)
			}
		case f := <-s.findings:
			if s.found(f) && lively.Err() == nil {
				s.report.Probe = f.message
				end(s.graceOf(f.kind))
			}
		case s.report.PreStop = <-s.preStopped:
			s.ending.cut = nil
			s.signalStop()
		case grace := <-s.shortened:
			s.shorten(grace)
		case <-s.ending.timer.C:
			s.late()
		}
	}
}

// begin says how the container is, and runs its postStart hook or its probes.
func (s *supervisor) begin(lively context.Context, probe func()) error {
	s.state = state{hooked: s.spec.PostStart == nil, started: s.spec.Startup == nil, ready: s.spec.Readiness == nil}
	if err := publish(s.task.runDir(), s.state); err != nil {
		return fmt.Errorf("say how the container is: %w", errors.Join(err, s.main.signalAlone(syscall.SIGKILL)))
	}
	if s.state.hooked {
		probe()
		return nil
	}
	s.work.Go(func() { s.hooked <- s.checker.hook(lively, s.spec.PostStart) })
	return nil
}

// received is a signal for the container, or to end it.
func (s *supervisor) received(got os.Signal, end func(grace time.Duration)) {
	switch sig, ok := got.(syscall.Signal); {
	case !ok:
	case s.asksToEnd(sig):
		end(s.grace())
	default:
		s.send(sig)
	}
}

// postStarted is the end of the postStart hook: probes begin, or the container ends.
func (s *supervisor) postStarted(failure *HookFailure, probe func(), end func(grace time.Duration)) {
	if failure != nil {
		s.report.Reason, s.report.Hook = ReasonPostStartHook, failure
		end(s.grace())
		return
	}
	s.changed(func(st *state) { st.hooked = true })
	probe()
}

// grace is the pod's.
func (s *supervisor) grace() time.Duration { return time.Duration(s.spec.Grace) * time.Second }

// asksToEnd is true for a signal by which ECS ends a container.
func (s *supervisor) asksToEnd(sig syscall.Signal) bool { return slices.Contains(s.asked, sig) }

// probe begins to probe a container that has started.
func (s *supervisor) probe(all, lively context.Context, started time.Time) {
	p := &prober{spec: &s.spec, check: s.checker.check, found: func(f finding) {
		select {
		case s.findings <- f:
		case <-all.Done():
		}
	}}
	s.work.Go(func() { p.run(all, lively, started) })
}

// found notes an outcome. It returns true if the container is to be ended by it.
func (s *supervisor) found(f finding) bool {
	s.changed(func(st *state) {
		switch {
		case f.kind == startup && f.verdict == success:
			st.started, st.why = true, ""
		case f.kind == readiness:
			st.ready, st.why = f.verdict == success, f.message
		case f.verdict == failed:
			st.why = f.message
		}
	})
	return f.verdict == failed && f.kind != readiness
}

// changed makes a change known to who asks for the container's health.
func (s *supervisor) changed(change func(*state)) {
	before := s.state.text()
	change(&s.state)
	if s.state.text() == before {
		return
	}
	if err := publish(s.task.runDir(), s.state); err != nil {
		// The volume is full or has gone. Without the file the container does not count
		// as ready, whatever it said.
		s.trouble = errors.Join(err, os.Remove(filepath.Join(s.task.runDir(), healthFile)))
	}
}

// graceOf is how long a container may take to end that failed a probe.
func (s *supervisor) graceOf(k kind) time.Duration {
	probe := s.spec.Liveness
	if k == startup {
		probe = s.spec.Startup
	}
	if probe.Grace != nil {
		return time.Duration(*probe.Grace) * time.Second
	}
	return s.grace()
}

// end begins the end of the container, or brings it nearer: a shorter grace replaces
// a longer one.
func (s *supervisor) end(ctx context.Context, grace time.Duration) {
	now := time.Now()
	deadline := now.Add(grace)
	if latest := s.ending.latest; !latest.IsZero() && latest.Before(deadline) {
		deadline = latest
	}
	if s.ending.begun {
		if deadline.Before(s.ending.deadline) {
			s.until(deadline)
		}
		return
	}
	s.ending.begun = true
	if s.spec.PreStop == nil || !now.Before(deadline) {
		s.ending.deadline = deadline
		s.signalStop()
		return
	}
	s.until(deadline)
	hook, cut := context.WithCancel(ctx)
	s.ending.cut = cut
	s.work.Go(func() {
		failure := s.checker.hook(hook, s.spec.PreStop)
		if hook.Err() != nil {
			failure = nil // it was cut off
		}
		s.preStopped <- failure
	})
}

// shorten leaves the container no longer than a grace from now, once it is asked to end.
func (s *supervisor) shorten(grace time.Duration) {
	latest := time.Now().Add(grace)
	if s.ending.latest.IsZero() || latest.Before(s.ending.latest) {
		s.ending.latest = latest
	}
	if s.ending.begun && latest.Before(s.ending.deadline) {
		s.until(latest)
	}
}

// askedToShorten hands a grace to who watches over the container; it is false once
// nobody does.
func (s *supervisor) askedToShorten(ctx context.Context, grace time.Duration) bool {
	select {
	case s.shortened <- grace:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *supervisor) until(deadline time.Time) {
	s.ending.deadline = deadline
	s.ending.timer.Reset(time.Until(deadline))
}

// signalStop asks the container itself to end, and leaves it the rest of its grace.
func (s *supervisor) signalStop() {
	s.send(s.stop)
	if least := time.Now().Add(minGrace); s.ending.deadline.Before(least) {
		s.ending.deadline = least
	}
	s.until(s.ending.deadline)
}

// late ends what has not ended in its time.
func (s *supervisor) late() {
	if s.ending.cut != nil {
		s.ending.cut()
		return // preStopped comes
	}
	s.send(syscall.SIGKILL)
}

// send signals the container's command alone, as a runtime does. It may have ended.
func (s *supervisor) send(sig syscall.Signal) { _ = s.main.signalAlone(sig) }
