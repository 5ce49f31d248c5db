package admit

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The spacing of failures of one controller's pods: at once, then 10 s, 20 s …
// 5 min apart; forgotten after twice the last.
const (
	spaceFirst = 10 * time.Second
	spaceMax   = 5 * time.Minute
)

// maxOwners bounds the controllers that are remembered; beyond, the one whose
// turn is nearest is forgotten, which makes its next failure come sooner.
const maxOwners = 4096

// spacing gives out the moments at which rejected pods fail. A controller has
// one queue whatever the number of its replicas, so that it makes few pods in
// place of those that failed. The queue is lost with the process.
type spacing struct {
	owners map[types.UID]*queue
	// sweepAt is the number of owners at which the stale are looked for.
	sweepAt int
}

type queue struct {
	next  time.Time
	delay time.Duration
	// waiting pods and when they fail.
	waiting map[types.UID]time.Time
}

func newSpacing() spacing { return spacing{owners: map[types.UID]*queue{}, sweepAt: maxOwners / 64} }

// take puts a rejected pod into its controller's queue and returns when it fails.
func (s *spacing) take(owner, pod types.UID, now time.Time) time.Time {
	q := s.owners[owner]
	if q == nil || q.stale(now) {
		s.sweep(now)
		q = &queue{waiting: map[types.UID]time.Time{}}
		s.owners[owner] = q
	}
	at := now
	if q.next.After(now) {
		at = q.next
	}
	q.delay = min(max(spaceFirst, 2*q.delay), spaceMax)
	q.next = at.Add(q.delay)
	q.waiting[pod] = at
	return at
}

// release takes a pod out of its controller's queue. When nobody is left in it
// the moments that were given out and not used are taken back: a controller
// that is scaled down and up again does not wait for pods that are gone.
func (s *spacing) release(owner, pod types.UID, now time.Time) {
	q := s.owners[owner]
	if q == nil {
		return
	}
	delete(q.waiting, pod)
	for _, at := range q.waiting {
		if at.After(now) {
			return
		}
	}
	if soon := now.Add(q.delay); q.next.After(soon) {
		q.next = soon
	}
}

func (q *queue) stale(now time.Time) bool { return now.After(q.next.Add(q.delay)) }

// sweep makes room for one more owner.
func (s *spacing) sweep(now time.Time) {
	if len(s.owners) < s.sweepAt {
		return
	}
	var nearest types.UID
	for uid, q := range s.owners {
		if q.stale(now) {
			delete(s.owners, uid)
			continue
		}
		if n := s.owners[nearest]; n == nil || q.next.Before(n.next) {
			nearest = uid
		}
	}
	if len(s.owners) >= maxOwners {
		delete(s.owners, nearest)
	}
	s.sweepAt = min(max(maxOwners/64, 2*len(s.owners)), maxOwners)
}
