package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/burstlet/burstlet/backend"
)

const (
	// stopRepeat is how often a stop is asked again while facts show no exit.
	stopRepeat = 10 * time.Second
	// removeFirst and removeMax bound the delay between tries to remove.
	removeFirst = 100 * time.Millisecond
	removeMax   = 5 * time.Second
	// keepAttempts is how many attempts stay for logs of the one before.
	keepAttempts = 2
	// keepDead is how many ended attempts of a container stay (kubelet:
	// MaxPerPodContainer).
	keepDead = 1
)

// end plans the way down: stop what runs; then, for a pod that is to be gone,
// remove every attempt until the backend proves that nothing is left. So it goes with a
// pod that is to be discarded, once nothing of it is live.
func (v view) end(p *Plan) {
	for i := range v.Facts {
		a := &v.Facts[i]
		switch {
		case !v.attemptRuns(a) && (!a.Live || p.Termination.Gone):
		case a != v.newest || !v.hasSidecar() && !v.hasPreStop():
			v.stop(p, a, p.Termination.Deadline)
		case !v.PodUnit():
			v.stopInOrder(p, a, p.Termination.Deadline)
		case !v.hooksFirst(p, a, p.Termination.Deadline):
			v.stop(p, a, p.Termination.Deadline)
		}
	}
	if !v.running() {
		v.leave(p)
	}
}

// leave removes what is not to stay of a pod in which nothing runs any more.
func (v view) leave(p *Plan) {
	switch {
	case p.Termination.Gone:
		v.reclaim(p)
	case p.Termination.Discard && !v.PodUnit():
		if !v.live() {
			v.reclaim(p)
			p.Discarded, p.Reclaimed = p.Reclaimed, false
		}
	case len(v.Memory.Placed) > 0 && !v.live(): // tokens and secrets do not outlive their use
		v.clear(p)
	}
}

// live is true while any attempt is.
func (v view) live() bool {
	return slices.ContainsFunc(v.Facts, func(a backend.PodFacts) bool { return a.Live })
}

// stop asks an attempt to end by the deadline.
func (v view) stop(p *Plan, a *backend.PodFacts, deadline time.Time) {
	ask, asked := v.Memory.Stops[a.Attempt]
	deadline, grace, due := v.stopDue(p, ask, asked, deadline)
	if !due {
		return
	}
	p.Actions = append(p.Actions, StopPod{
		Ref: a.Ref, Grace: v.capped(grace), Deadline: deadline, First: !asked, Names: runningNames(a), Why: v.whyEnded(p, a),
	})
}

// whyEnded says of the containers for whose sake an attempt ends, though its pod
// lives on, why that is.
func (v view) whyEnded(p *Plan, a *backend.PodFacts) map[string]string {
	if p.Termination != nil {
		return nil
	}
	why := map[string]string{}
	for _, m := range v.all() {
		if cur := v.current(m.Name); cur != nil && cur.Pod == a && cur.State() == backend.Running {
			if order, must := v.mustEnd(m, cur); must {
				why[m.Name] = order.Why
			}
		}
	}
	return why
}

func runningNames(a *backend.PodFacts) []string {
	var names []string
	for _, c := range a.Containers {
		if c.State() == backend.Running {
			names = append(names, c.Name)
		}
	}
	return names
}

// reclaim removes every attempt that the remote has, or might have. A launch
// whose reply was lost may still appear until it settled.
func (v view) reclaim(p *Plan) {
	pending := false
	for _, attempt := range v.attempts() {
		r, lost := v.Memory.Removes[attempt], v.Memory.Lost[attempt]
		settled, unsettled := v.unsettled(attempt)
		switch next := r.Last.Add(removeDelay(r.Count)); {
		case r.Proven && lost.IsZero() && !v.has(attempt):
			continue
		case unsettled && !v.has(attempt):
			p.Wake(settled)
		case r.Count > 0 && v.Now.Before(next):
			p.Wake(next)
		default:
			p.Actions = append(p.Actions, RemovePod{
				Ref: v.attemptRef(attempt), Settles: !lost.IsZero() && !unsettled,
			})
		}
		pending = true
	}
	if !pending {
		pending = v.clear(p)
	}
	p.Reclaimed = !pending
}

// clear removes the volumes once nothing of the pod runs; true until the
// backend proves that none is left. What volumes an orphan has, nobody knows.
func (v view) clear(p *Plan) (pending bool) {
	if !v.Places || v.Memory.Cleared.Proven || v.Pod != nil && len(v.Pod.Spec.Volumes) == 0 {
		return false
	}
	r := v.Memory.Cleared
	if next := r.Last.Add(removeDelay(r.Count)); r.Count > 0 && v.Now.Before(next) {
		p.Wake(next)
		return true
	}
	p.Actions = append(p.Actions, ClearVolumes{Ref: v.ref(0)})
	return true
}

// attempts are those seen, those whose launch may yet appear, or the first one
// if there is neither: its absence is to be proved as well.
func (v view) attempts() []int {
	var attempts []int
	for _, f := range v.Facts {
		attempts = append(attempts, f.Attempt)
	}
	for attempt := range v.Memory.Lost {
		attempts = append(attempts, attempt)
	}
	for attempt := range v.Memory.Removes {
		attempts = append(attempts, attempt)
	}
	if len(attempts) == 0 {
		return []int{0}
	}
	slices.Sort(attempts)
	return slices.Compact(attempts)
}

func (v view) has(attempt int) bool {
	return slices.ContainsFunc(v.Facts, func(f backend.PodFacts) bool { return f.Attempt == attempt })
}

// holds says whether no launch of an attempt can make anything any more: a sandbox
// that is listed, even a dead one, has the attempt's name for itself.
func (v view) holds(attempt int) bool { return !v.PodUnit() && v.has(attempt) }

// unsettled says until when a launch of an attempt whose reply was lost may appear;
// false when none was lost or it settled.
func (v view) unsettled(attempt int) (until time.Time, may bool) {
	lost := v.Memory.Lost[attempt]
	until = lost.Add(v.Settle)
	return until, !lost.IsZero() && v.Now.Before(until)
}

func (v view) attemptRef(attempt int) backend.Ref {
	for _, f := range v.Facts {
		if f.Attempt == attempt {
			return f.Ref
		}
	}
	return v.ref(attempt)
}

// removeDelay is the pause after so many tries. The second follows at once: it proves
// what the first did.
func removeDelay(count int) time.Duration {
	if count <= 1 {
		return 0
	}
	return min(removeFirst<<min(count-2, 10), removeMax)
}

// collect removes what a running pod no longer needs: attempts older than the
// one before, dead ones that hold no container (kubelet: evictSandboxes), and all
// but the last ended attempt of each container.
func (v view) collect(p *Plan) {
	if p.Termination == nil {
		for i := range v.Facts {
			a := &v.Facts[i]
			if i >= len(v.Facts)-keepAttempts && !v.isEmpty(i) {
				continue
			}
			if settled, may := v.unsettled(a.Attempt); may && v.holds(a.Attempt) {
				p.Wake(settled) // its name stays taken until then
				continue
			}
			r := v.Memory.Removes[a.Attempt]
			if next := r.Last.Add(removeDelay(r.Count)); r.Count > 0 && v.Now.Before(next) {
				p.Wake(next)
				continue
			}
			p.Actions = append(p.Actions, RemovePod{Ref: a.Ref})
		}
	}
	if v.PodUnit() || p.Termination != nil {
		return
	}
	for _, c := range v.all() {
		v.collectContainer(p, c.Name)
	}
}

// isEmpty is true of an attempt that another one followed and that holds nothing.
func (v view) isEmpty(i int) bool {
	a := &v.Facts[i]
	return !v.PodUnit() && i < len(v.Facts)-1 && !a.Live && len(a.Containers) == 0
}

func (v view) collectContainer(p *Plan, name string) {
	dead := 0
	for _, c := range v.history(name) {
		if c.State() != backend.Exited {
			continue
		}
		if dead++; dead <= keepDead {
			continue
		}
		v.removeContainer(p, &c)
	}
}

func (v view) removeContainer(p *Plan, c *ContainerAttempt) {
	action := RemoveContainer{Ref: c.Ref()}
	if f, ok := v.Memory.Failures[action.key()]; ok && v.Now.Before(f.Until()) {
		p.Wake(f.Until())
		return
	}
	p.Actions = append(p.Actions, action)
}

// couldRun says whether a container of the pod may be running, also one whose
// start is not certain until it settled.
func (v view) couldRun(p *Plan) {
	p.CouldRun = v.running()
	p.CouldRun = v.startsUnsettled(p) || p.CouldRun
	if v.PodUnit() {
		for _, at := range v.Memory.Lost {
			p.CouldRun = v.unseenSince(p, at) || p.CouldRun
		}
	}
	// The facts may be from before it settled: a pod that ends waits for proof.
	p.CouldRun = p.CouldRun || p.Termination != nil && v.unproved(p.Termination)
}

// startsUnsettled is true while a container may appear whose start got no reply.
func (v view) startsUnsettled(p *Plan) (may bool) {
	for _, at := range v.Memory.LostStarts {
		may = v.unseenSince(p, at) || may
	}
	return may
}

// unseenSince is true while what got no reply at that time may appear, or the facts are
// from before it could.
func (v view) unseenSince(p *Plan, at time.Time) bool {
	until := at.Add(v.Settle)
	switch {
	case v.Now.Before(until):
		p.Wake(until)
	case !v.FactsAt.After(until):
		p.Inspect = true
	default:
		return false
	}
	return true
}

// unproved is true while something whose reply was lost may run, for all that is
// known: a task until its removal finds nothing, a container as long as there
// is a sandbox that it may be in.
func (v view) unproved(order *TerminationOrder) bool {
	if v.PodUnit() {
		for attempt := range v.Memory.Lost {
			if order.Gone && !v.has(attempt) {
				return true
			}
		}
		return false
	}
	return len(v.Memory.LostStarts) > 0 &&
		slices.ContainsFunc(v.Facts, func(f backend.PodFacts) bool { return f.Live })
}

func (a RemoveContainer) key() string { return fmt.Sprintf("remove %s/%d", a.Ref.Name, a.Ref.Attempt) }
