package sim

import (
	"container/heap"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// eventsView lends backend.Events.
type eventsView struct{ *view }

// Run hints at every change: those that calls make and those that time brings.
// It begins with what is to come, so nothing that was there before is hinted.
func (v eventsView) Run(ctx context.Context, hints chan<- types.UID) error {
	q := v.subscribe()
	defer v.unsubscribe(q)
	for {
		due, next := v.due(q)
		for _, uid := range due {
			select {
			case hints <- uid:
			case <-ctx.Done():
				return streamEnd(ctx)
			}
		}
		if err := q.wait(ctx, next); err != nil {
			return err
		}
	}
}

// wait returns when something may be due; next is zero when nothing is foreseen.
func (q *hintQueue) wait(ctx context.Context, next time.Time) error {
	var alarm <-chan time.Time
	if !next.IsZero() {
		timer := time.NewTimer(time.Until(next))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-ctx.Done():
		return streamEnd(ctx)
	case <-q.wake:
	case <-alarm:
	}
	return nil
}

func streamEnd(ctx context.Context) error {
	return backend.Errorf(backend.ErrUnavailable, "watch events: %w", ctx.Err())
}

func (v eventsView) subscribe() *hintQueue {
	now := v.lock()
	defer v.mu.Unlock()
	q := &hintQueue{node: v.node, entries: map[*attempt]*hint{}, wake: make(chan struct{}, 1)}
	for _, a := range v.order {
		if a != nil {
			q.schedule(a, a.next(now))
		}
	}
	v.hints[q] = struct{}{}
	return q
}

func (v eventsView) unsubscribe(q *hintQueue) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.hints, q)
}

// due takes the pods that changed by now, and says when the next one will.
func (v eventsView) due(q *hintQueue) (uids []types.UID, next time.Time) {
	now := v.lock()
	defer v.mu.Unlock()
	for len(q.heap) > 0 && !q.heap[0].at.After(now) {
		a := q.heap[0].attempt
		uids = append(uids, a.ref.UID)
		q.schedule(a, a.next(now))
	}
	if len(q.heap) > 0 {
		next = q.heap[0].at
	}
	return uids, next
}

// hintQueue has one entry for each attempt that will change. Guarded by
// Remote.mu, but for wake.
type hintQueue struct {
	node    string
	heap    hintHeap
	entries map[*attempt]*hint
	serial  int
	wake    chan struct{}
}

// schedule sets when the attempt is hinted at next; zero is never.
func (q *hintQueue) schedule(a *attempt, at time.Time) {
	if a.node != q.node {
		return
	}
	e := q.entries[a]
	switch {
	case at.IsZero() && e == nil:
		return
	case at.IsZero():
		heap.Remove(&q.heap, e.index)
		delete(q.entries, a)
		return
	case e == nil:
		e = &hint{attempt: a}
		q.entries[a] = e
		e.at, e.serial = at, q.serial
		heap.Push(&q.heap, e)
	default:
		e.at, e.serial = at, q.serial
		heap.Fix(&q.heap, e.index)
	}
	q.serial++
}

// signal makes Run look again.
func (q *hintQueue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// hint is one attempt's next change; serial keeps the order of equal times.
type hint struct {
	attempt *attempt
	at      time.Time
	serial  int
	index   int
}

// hintHeap implements heap.Interface.
type hintHeap []*hint

func (h hintHeap) Len() int { return len(h) }

func (h hintHeap) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].serial < h[j].serial
}

func (h hintHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *hintHeap) Push(x any) {
	e := x.(*hint)
	e.index = len(*h)
	*h = append(*h, e)
}

func (h *hintHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return e
}
