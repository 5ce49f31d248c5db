package objectcache

import (
	"context"
	"time"

	"github.com/containerd/log"

	"github.com/burstlet/burstlet/syncloop/resolve"
)

// fetched is something that is read for one pod until it is had, and then stays
// what it is. The Cache's lock guards it.
type fetched[T any] struct {
	task  task
	known bool
	value T
	err   error
	retry retry
}

// use starts to read what after names and before did not, and drops the reverse.
// The lock is held.
func use[T any](
	c *Cache, e *podEntry, all map[string]*fetched[T], before, after []string,
	read func(context.Context, string) (T, error),
) {
	difference(before, after,
		func(name string) {
			if old := all[name]; old != nil {
				c.drop(&old.task)
				delete(all, name)
			}
		},
		func(name string) {
			if all[name] != nil {
				return // named twice
			}
			f := &fetched[T]{}
			f.task.run = func(ctx context.Context) time.Duration {
				value, err := read(ctx, name)
				return f.take(ctx, c, e, value, err)
			}
			all[name] = f
			c.schedule(&f.task, time.Now())
		})
}

// take keeps what was read, or the error once it is worth telling, and says when to
// read again.
func (f *fetched[T]) take(ctx context.Context, c *Cache, e *podEntry, value T, err error) time.Duration {
	c.mu.Lock()
	pod := e.pod
	if f.task.ended || ctx.Err() != nil {
		c.mu.Unlock()
		return never
	}
	delay, tell := never, true
	if err == nil {
		f.known, f.value, f.err = true, value, nil
	} else {
		var told bool
		delay, told = f.retry.failed(time.Now(), err)
		tell = told && (f.err == nil || f.err.Error() != err.Error())
		if told {
			f.err = err
		}
	}
	c.mu.Unlock()
	if err != nil {
		log.G(ctx).WithError(err).WithField("pod", pod.Namespace+"/"+pod.Name).WithField("uid", pod.UID).
			Debug("object not read")
	}
	if tell {
		c.notify(pod.UID)
	}
	return delay
}

// snapshot is what is known by name; nil for nothing wanted.
func snapshot[T any](all map[string]*fetched[T]) map[string]resolve.Object[T] {
	if len(all) == 0 {
		return nil
	}
	out := make(map[string]resolve.Object[T], len(all))
	for name, f := range all {
		if f.known || f.err != nil {
			out[name] = resolve.Object[T]{Value: f.value, Err: f.err}
		}
	}
	return out
}
