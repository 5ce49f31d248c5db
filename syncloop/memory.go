package syncloop

import (
	"errors"
	"maps"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/images"
)

// The delays after failures, by what failed.
var (
	delayTransient = delays{time.Second, 10 * time.Second}
	delayThrottled = delays{time.Second, 30 * time.Second}
	delayCapacity  = delays{30 * time.Second, 5 * time.Minute}
	delayDenied    = delays{10 * time.Second, 5 * time.Minute}
	delayPull      = delays{crashInitial, crashMax}
)

type delays struct{ first, most time.Duration }

// after doubles the delay that went before.
func (d delays) after(before time.Duration) time.Duration {
	return min(max(d.first, 2*before), d.most)
}

func delaysFor(reason string, err error) delays {
	switch {
	case images.PullFailed(reason):
		return delayPull
	case errors.Is(err, backend.ErrThrottled):
		return delayThrottled
	case errors.Is(err, backend.ErrCapacity):
		return delayCapacity
	case errors.Is(err, backend.ErrDenied):
		return delayDenied
	}
	return delayTransient
}

// Result is how an action ended.
type Result struct {
	Action Action
	Err    error
	// Reason is the kubelet's word for Err ("ErrImagePull").
	Reason string
	// Unmade is true when it failed before anything was made.
	Unmade bool
	At     time.Time
}

// put makes the map at its first entry: most pods never have one.
func put[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}

// adopt takes over a pod that an earlier life of the process may have worked on.
// Of a deleted pod's grace it leaves what is left; a running container counts as
// hooked.
func (m *Memory) adopt(in *Input, started time.Time) {
	v := newView(in)
	if !terminal(m.Status.Phase) {
		m.adoptLost(v, started)
	}
	if order := v.ordered(); order != nil && in.Pod.DeletionTimestamp != nil {
		// The API server's clock may not be ours: a moment is left in any case.
		left := max(in.Pod.DeletionTimestamp.Sub(in.Now), minGrace)
		if deadline := in.Now.Add(left); deadline.Before(order.Deadline) {
			order.Deadline = deadline
		}
		m.Kill = order
	}
	for _, c := range v.all() {
		if cur := v.current(c.Name); postStart(c.Container) != nil && cur != nil && cur.State() == backend.Running {
			put(&m.Hooks, hookKey(c, cur, PostStart), HookState{Done: true})
		}
	}
}

// adoptLost assumes that the next attempt was launched, and containers that do
// not run were started, just before the process died: the launch is replayed, or
// waited out before the pod is gone; so are the starts.
func (m *Memory) adoptLost(v view, started time.Time) {
	sandbox := v.sandbox()
	if sandbox == nil {
		put(&m.Lost, v.nextAttempt(), started)
		return
	}
	if started.Sub(sandbox.CreatedAt) < v.Settle {
		put(&m.Lost, sandbox.Attempt, started) // a twin of its launch may be on its way still
	}
	if v.Unit == PodUnit {
		return
	}
	for _, c := range v.all() {
		if cur := v.current(c.Name); cur == nil || cur.State() != backend.Running {
			put(&m.LostStarts, c.Name, started)
		}
	}
}

// forget drops what is known of containers that the remote has no more.
func (m *Memory) forget(facts []backend.PodFacts) {
	if len(m.Hooks) == 0 && len(m.ContainerStops) == 0 {
		return
	}
	ids, stops := map[string]bool{}, map[string]bool{}
	for i := range facts {
		for _, c := range facts[i].Containers {
			ids[c.ID], stops[stopKey(&seen{ContainerFacts: c})] = true, true
		}
	}
	maps.DeleteFunc(m.Hooks, func(k HookKey, _ HookState) bool { return !ids[k.ID] })
	maps.DeleteFunc(m.ContainerStops, func(k string, _ StopAsk) bool { return !stops[k] })
}

// Record notes how an action ended.
func (m *Memory) Record(r Result) {
	m.know(r)
	switch a := r.Action.(type) {
	case Launch:
		m.recordLaunch(a, r)
	case StartContainer:
		m.recordStart(a, r)
	case StopPod:
		put(&m.Stops, a.Ref.Attempt, r.asked(a.Deadline))
	case StopContainer:
		put(&m.ContainerStops, a.key, r.asked(a.Deadline))
	case PlaceVolume:
		if r.Err == nil {
			put(&m.Placed, a.Spec.Name, a.Spec.Hash)
			put(&m.Mounted, a.Spec.Name, true)
			delete(m.Failures, a.key())
			return
		}
		m.fail(a.key(), r)
	case ClearVolumes:
		m.Cleared = Removal{Count: m.Cleared.Count + 1, Last: r.At, Proven: errors.Is(r.Err, backend.ErrNotFound)}
	case RemovePod:
		rm := Removal{Count: m.Removes[a.Ref.Attempt].Count + 1, Last: r.At}
		if errors.Is(r.Err, backend.ErrNotFound) {
			rm.Proven = true
			if a.Settles {
				delete(m.Lost, a.Ref.Attempt)
			}
		}
		put(&m.Removes, a.Ref.Attempt, rm)
	case RemoveContainer:
		if r.Err == nil || errors.Is(r.Err, backend.ErrNotFound) {
			delete(m.Failures, a.key())
			return
		}
		m.fail(a.key(), r)
	}
}

// asked notes a stop. NotFound is one too; a failed one is asked again soon.
func (r Result) asked(deadline time.Time) StopAsk {
	if r.Err == nil || errors.Is(r.Err, backend.ErrNotFound) {
		return StopAsk{At: r.At, Deadline: deadline}
	}
	return StopAsk{At: r.At.Add(delayTransient.first - stopRepeat), Deadline: deadline}
}

// recordLaunch: a refusal before anything was made leaves nothing; after any
// other error the attempt may yet appear.
func (m *Memory) recordLaunch(a Launch, r Result) {
	if r.Err == nil {
		delete(m.Lost, a.Spec.Attempt)
		delete(m.Failures, podKey)
		clear(m.Mounted)
		if a.Restart {
			put(&m.Backoff, a.Loop, m.Backoff[a.Loop].next(a.Ended, r.At))
		}
		return
	}
	m.fail(podKey, r)
	if !definite(r.Err) {
		put(&m.Lost, a.Spec.Attempt, r.At)
	}
}

// definite errors say that nothing was made.
func definite(err error) bool {
	return errors.Is(err, backend.ErrInvalid) || errors.Is(err, backend.ErrUnsupported) ||
		errors.Is(err, backend.ErrCapacity) || errors.Is(err, backend.ErrThrottled) ||
		errors.Is(err, backend.ErrDenied)
}

func (m *Memory) recordStart(a StartContainer, r Result) {
	name := a.Spec.Container.Name
	if r.Err == nil {
		delete(m.Failures, name)
		delete(m.LostStarts, name)
	} else {
		m.fail(name, r)
		if !definite(r.Err) && !r.Unmade {
			put(&m.LostStarts, name, r.At)
		}
	}
	if a.Restart && (r.Err == nil || r.Reason == reasonCreateError) {
		put(&m.Backoff, a.Loop, m.Backoff[a.Loop].next(a.Ended, r.At))
	}
}

// fail notes a failure and how long to wait.
func (m *Memory) fail(key string, r Result) {
	before := m.Failures[key]
	f := Failure{Reason: r.Reason, Message: r.Err.Error(), Class: backend.Class(r.Err), At: r.At}
	last := before.Delay
	if before.Reason != f.Reason {
		last = 0
	}
	f.Delay = delaysFor(f.Reason, r.Err).after(last)
	put(&m.Failures, key, f)
}
