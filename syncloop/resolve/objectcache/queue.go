package objectcache

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// maxCalls bounds the tasks that run at once, and the lists and watches that are asked
// for at once: more would only wait for the client's rate limit, and so would every other
// request behind them.
const maxCalls = 32

// ask waits for a place among the lists and watches that are asked for. done gives it
// back.
func (c *Cache) ask(ctx context.Context) (done func(), err error) {
	select {
	case c.asking <- struct{}{}:
		return func() { <-c.asking }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// job is something that goes on until it is ended: a watch. It has a goroutine
// of Run's.
type job struct {
	run    func(context.Context)
	cancel context.CancelFunc // set when it was started
	ended  bool
}

// task is something that is done now and then, at its due time. run says in how
// long it is due again; never means that it is not, until someone schedules it.
type task struct {
	run     func(context.Context) time.Duration
	due     time.Time
	place   int // in the queue, 1 based; 0: not in it
	running bool
	ended   bool
}

const never time.Duration = -1

// start has Run start a job. The lock is held.
func (c *Cache) start(run func(context.Context)) *job {
	j := &job{run: run}
	c.starting = append(c.starting, j)
	c.poke()
	return j
}

// end ends a job, started or not. The lock is held.
func (j *job) end() {
	j.ended = true
	if j.cancel != nil {
		j.cancel()
	}
}

// schedule makes a task due at the given time, unless it runs now: then it says
// itself when it is due. The lock is held.
func (c *Cache) schedule(t *task, due time.Time) {
	if t.running || t.ended {
		return
	}
	t.due = due
	if t.place > 0 {
		heap.Fix(&c.tasks.waiting, t.place-1)
	} else {
		heap.Push(&c.tasks.waiting, t)
	}
	c.poke()
}

// drop ends a task: it does not run again, and what it is doing now counts for
// nothing. The lock is held.
func (c *Cache) drop(t *task) {
	t.ended = true
	if t.place > 0 {
		heap.Remove(&c.tasks.waiting, t.place-1)
	}
}

// dispatch starts what is to be started, and says in how long the next task is
// due, if there is one to wait for.
func (c *Cache) dispatch(ctx context.Context, wg *sync.WaitGroup) (wait time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range c.starting {
		if j.ended {
			continue
		}
		jobCtx, cancel := context.WithCancel(ctx)
		j.cancel = cancel
		wg.Go(func() {
			defer cancel()
			j.run(jobCtx)
		})
	}
	c.starting = nil
	now := time.Now()
	for len(c.tasks.waiting) > 0 && c.tasks.running < maxCalls {
		if wait := c.tasks.waiting[0].due.Sub(now); wait > 0 {
			return wait, true
		}
		t := heap.Pop(&c.tasks.waiting).(*task)
		t.running = true
		c.tasks.running++
		wg.Go(func() { c.perform(ctx, t) })
	}
	return 0, false
}

func (c *Cache) perform(ctx context.Context, t *task) {
	again := t.run(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tasks.running--
	t.running = false
	if again != never {
		c.schedule(t, time.Now().Add(again))
	}
	c.poke()
}

// queue holds the tasks that are due later, and counts those that run. The
// Cache's lock guards it.
type queue struct {
	waiting byDue
	running int
}

// byDue is a heap by time.
type byDue []*task

func (q byDue) Len() int           { return len(q) }
func (q byDue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }

func (q byDue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i+1, j+1
}

func (q *byDue) Push(x any) {
	t := x.(*task)
	*q = append(*q, t)
	t.place = len(*q)
}

func (q *byDue) Pop() any {
	last := len(*q) - 1
	t := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	t.place = 0
	return t
}
