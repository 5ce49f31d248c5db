package syncloop

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/containerd/log"
)

// turn is where a worker stands. None has a goroutine of its own: of ten thousand
// pods, nearly all have nothing to decide at any moment.
type turn int

const (
	resting turn = iota
	queued
	deciding
	// queuedAgain: a worker asked for a turn while it decides decides again.
	queuedAgain
	// over is the last: it never decides again.
	over
)

// turns is the queue of workers that are to decide.
type turns struct {
	mu    sync.Mutex
	queue []*worker
	// more is signalled while the queue is not empty.
	more chan struct{}
}

func newTurns() *turns { return &turns{more: make(chan struct{}, 1)} }

func (t *turns) push(w *worker) {
	t.mu.Lock()
	t.queue = append(t.queue, w)
	t.mu.Unlock()
	t.notify()
}

func (t *turns) notify() {
	select {
	case t.more <- struct{}{}:
	default:
	}
}

// next is nil when the queue is empty.
func (t *turns) next() *worker {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 {
		t.queue = nil // the array of a burst is not kept
		return nil
	}
	w := t.queue[0]
	t.queue[0] = nil
	if t.queue = t.queue[1:]; len(t.queue) > 0 {
		t.notify()
	}
	return w
}

func (t *turns) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.queue)
}

// deciders is how many workers decide at once: it takes a processor, no waiting.
func deciders() int { return 2 * runtime.GOMAXPROCS(0) }

// giveTurns lets workers decide until the context ends.
func (l *Loop) giveTurns(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.turns.more:
		}
		w := l.turns.next()
		if w == nil || !w.decide(ctx) {
			continue
		}
		select {
		case l.finished <- w:
		case <-ctx.Done():
			return
		}
	}
}

// poke makes the worker decide again.
func (w *worker) poke() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.enqueue()
}

// enqueue asks for a turn, under the lock.
func (w *worker) enqueue() {
	switch w.turn {
	case resting:
		w.turn = queued
		w.loop.turns.push(w)
	case deciding:
		w.turn = queuedAgain
	case queued, queuedAgain, over:
	}
}

// later leaves something for the worker to do before it decides again.
func (w *worker) later(do func(context.Context)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inbox = append(w.inbox, do)
	w.enqueue()
}

// decide takes the worker's turn. It is true when that was the last.
func (w *worker) decide(ctx context.Context) (last bool) {
	ctx = log.WithLogger(ctx, log.G(ctx).WithFields(log.Fields{
		"pod": w.ref.Namespace + "/" + w.ref.Name, "uid": w.ref.UID,
	}))
	w.mu.Lock()
	inbox := w.inbox
	w.inbox, w.turn = nil, deciding
	w.mu.Unlock()
	for _, do := range inbox {
		do(ctx)
	}
	wakeAt := w.safeStep(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.done:
		w.turn = over
		w.wakeAt(time.Time{})
		return true
	case w.turn == queuedAgain:
		w.turn = resting
		w.enqueue()
	default:
		w.turn = resting
		w.wakeAt(wakeAt)
	}
	return false
}

// wakeAt asks for a turn at a time; zero is never.
func (w *worker) wakeAt(at time.Time) {
	if at.IsZero() {
		if w.alarm != nil {
			w.alarm.Stop()
		}
		return
	}
	// A plan that wakes in the past must not make a worker spin.
	after := max(wakeSoonest, time.Until(at))
	if w.alarm == nil {
		w.alarm = time.AfterFunc(after, w.poke)
		return
	}
	w.alarm.Reset(after)
}

// sleep stops the alarm for good, when the loop ends.
func (w *worker) sleep() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wakeAt(time.Time{})
}
