package statusmgr

import (
	"container/heap"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// queue orders the pods that need a look: those ready now, first come first
// served, and those due later. A UID is in one place at a time and is handed to
// one writer at a time; asking for it meanwhile hands it out once more after.
// It is not safe for concurrent use: the Manager's lock guards it.
type queue struct {
	ready  []types.UID
	queued map[types.UID]struct{}
	busy   map[types.UID]bool // true: asked for again meanwhile
	later  delayed
	due    map[types.UID]time.Time // the one valid item of later for each UID
}

func newQueue() queue {
	return queue{
		queued: make(map[types.UID]struct{}),
		busy:   make(map[types.UID]bool),
		due:    make(map[types.UID]time.Time),
	}
}

// add makes uid ready now, whatever it was due for later.
func (q *queue) add(uid types.UID) {
	delete(q.due, uid)
	if _, ok := q.busy[uid]; ok {
		q.busy[uid] = true
		return
	}
	if _, ok := q.queued[uid]; ok {
		return
	}
	q.queued[uid] = struct{}{}
	q.ready = append(q.ready, uid)
}

// addAt makes uid ready at the given time, unless it is ready earlier anyway.
func (q *queue) addAt(uid types.UID, at time.Time) {
	if _, ok := q.queued[uid]; ok || q.busy[uid] {
		return
	}
	if cur, ok := q.due[uid]; ok && !at.Before(cur) {
		return
	}
	q.due[uid] = at
	heap.Push(&q.later, delayedItem{uid: uid, at: at})
}

// retryAt is addAt by uid's own writer: what was asked for meanwhile waits too.
func (q *queue) retryAt(uid types.UID, at time.Time) {
	if _, ok := q.busy[uid]; ok {
		q.busy[uid] = false
	}
	q.addAt(uid, at)
}

// putOff is by uid's own writer: what was asked for meanwhile, or is due earlier, waits until
// then. It returns whether anything waits.
func (q *queue) putOff(uid types.UID, until time.Time) bool {
	at, due := q.due[uid]
	if !q.busy[uid] && !due {
		return false
	}
	q.busy[uid] = false
	if !due || at.Before(until) {
		delete(q.due, uid)
		q.addAt(uid, until)
	}
	return true
}

// take hands out the next ready UID and marks it busy. Without one it says how
// long until the next is due; zero means that none is.
func (q *queue) take(now time.Time) (uid types.UID, ok bool, wait time.Duration) {
	for len(q.later) > 0 {
		next := q.later[0]
		if at, valid := q.due[next.uid]; !valid || !at.Equal(next.at) {
			heap.Pop(&q.later)
			continue
		}
		if next.at.After(now) {
			wait = next.at.Sub(now)
			break
		}
		heap.Pop(&q.later)
		q.add(next.uid)
	}
	if len(q.ready) == 0 {
		return "", false, wait
	}
	uid = q.ready[0]
	q.ready = q.ready[1:]
	delete(q.queued, uid)
	q.busy[uid] = false
	return uid, true, 0
}

// done gives uid back, and makes it ready again if it was asked for meanwhile.
func (q *queue) done(uid types.UID) {
	again := q.busy[uid]
	delete(q.busy, uid)
	if again {
		q.add(uid)
	}
}

// forget cancels what uid is due for. A ready item stays; its taker finds no pod.
func (q *queue) forget(uid types.UID) {
	delete(q.due, uid)
	if _, ok := q.busy[uid]; ok {
		q.busy[uid] = false
	}
}

type delayedItem struct {
	uid types.UID
	at  time.Time
}

// delayed is a heap by time.
type delayed []delayedItem

func (d delayed) Len() int           { return len(d) }
func (d delayed) Less(i, j int) bool { return d[i].at.Before(d[j].at) }
func (d delayed) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *delayed) Push(x any)        { *d = append(*d, x.(delayedItem)) }
func (d *delayed) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}
