package refusal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/log"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
)

// Numbers of refusals in words that are not known.
const (
	// spaceFirst is how long all launches of the node wait after one, doubled up to
	// spaceMost while none succeeds.
	spaceFirst = time.Second
	spaceMost  = time.Minute
	// proofTimes refusals of one definition, over proofTime at least, prove that it is at
	// fault, if others succeeded between any two and no other was refused.
	proofTimes = 5
	proofTime  = 10 * time.Minute
	// suspectMemory is how long a refusal counts.
	suspectMemory = 30 * time.Minute
)

// Refusals follow what AWS refuses of one kind of call in words that are not known
// (awscall.ErrUnknown). Such words may mean anything: a role that is not there yet, a
// quota, a service of AWS's that is down, a definition that can never run.
//
//	a refusal           the calls of the whole node are spaced, so that a fault of all pods
//	                    is asked about once in a while rather than once for each of them
//	a success           ends that: it was not the node
//	proof               the definition is at fault when it is refused again and again
//	                    (proofTimes, proofTime) while those of others succeed in between
//
// Definitions are told apart by their family, which is named by its content.
type Refusals struct {
	mu sync.Mutex
	// next is when the next call may be made, delay how long that was after the last
	// refusal, and last the family that was refused: it waits twice as long, so that it
	// does not keep others from showing that they can.
	next  time.Time
	delay time.Duration
	last  string

	suspects map[string]suspect // by family
}

// suspect is a family that was refused.
type suspect struct {
	first, last time.Time
	// times it was refused, counting those with a success of another before.
	times int
	// passed is true once another succeeded since it was refused last.
	passed bool
}

// New makes Refusals that know of none.
func New() *Refusals { return &Refusals{suspects: map[string]suspect{}} }

// Admit says whether a call for a family may be made now. Errors: Throttled.
func (r *Refusals) Admit(family string, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := r.next
	if family == r.last {
		next = next.Add(r.delay)
	}
	if r.delay > 0 && now.Before(next) {
		return backend.Errorf(backend.ErrThrottled, "AWS refuses what this node asks in words that are not known: "+
			"asked again in %s: %w", next.Sub(now).Round(time.Second), awscall.ErrNotSent)
	}
	if r.delay > 0 { // one at a time, until this one is answered
		r.next = now.Add(r.delay)
	}
	return nil
}

// verdict is what a refusal means.
type verdict struct {
	// proved is true if the definition is at fault.
	proved bool
	// alone is true if others succeed meanwhile.
	alone bool
	// first is true of the first refusal since the last success.
	first bool
}

// refused notes a refusal.
func (r *Refusals) refused(family string, now time.Time) verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := verdict{first: r.delay == 0}
	r.delay = min(max(2*r.delay, spaceFirst), spaceMost)
	r.next, r.last = now.Add(r.delay), family
	others := false
	for f, s := range r.suspects {
		if now.Sub(s.last) >= suspectMemory {
			delete(r.suspects, f)
		} else if f != family {
			others = true
			s.times, s.first = 1, s.last // it is not alone: its proof starts over
			r.suspects[f] = s
		}
	}
	s, known := r.suspects[family]
	v.alone = s.passed
	switch {
	case !known || others || !s.passed:
		s.times, s.first = 1, now
	default:
		s.times++
	}
	s.last, s.passed = now, false
	r.suspects[family] = s
	v.proved = s.times >= proofTimes && now.Sub(s.first) >= proofTime
	return v
}

// Made notes a success: true if calls were spaced until now.
func (r *Refusals) Made(family string) (recovered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	recovered = r.delay > 0
	r.next, r.delay, r.last = time.Time{}, 0, ""
	delete(r.suspects, family)
	for f, s := range r.suspects {
		s.passed = true
		r.suspects[f] = s
	}
	return recovered
}

// Judge gives a refusal in words that are not known what was found out about it. Other
// errors stay as they are.
func (r *Refusals) Judge(ctx context.Context, family string, err error) error {
	if !errors.Is(err, awscall.ErrUnknown) {
		return err
	}
	v := r.refused(family, time.Now())
	if v.first {
		log.G(ctx).WithError(err).WithField("family", family).Warn(
			"AWS refuses a call in words that are not known; calls of this node are spaced until one succeeds")
	}
	switch {
	case v.proved:
		return backend.Errorf(backend.ErrInvalid, "%w (burstlet does not know this answer; other pods of this node "+
			"were started meanwhile, and this one was refused each time: correct what it has of its own, "+
			"such as image names, roles, annotations under ecs.burstlet.dev/, volumes and sizes)", err)
	case v.alone:
		return fmt.Errorf("%w (burstlet does not know this answer; other pods of this node can be started: compare "+
			"this pod's roles, annotations, volumes and sizes with theirs)", err)
	default:
		return fmt.Errorf("%w (burstlet does not know this answer; nothing that this node asks for is accepted now: "+
			"run burstlet doctor, and look at the roles, subnets and security groups of backend.ecs and "+
			"at AWS's Health Dashboard)", err)
	}
}
