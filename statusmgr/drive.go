package statusmgr

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/log"
)

// Run writes statuses until ctx ends, then waits for its writers and returns
// nil. What is left stays pending; see [Manager.Flush]. An incomplete Config is
// an error at once.
func (m *Manager) Run(ctx context.Context) error {
	if m.invalid != nil {
		return m.invalid
	}
	m.drive(ctx, false)
	return nil
}

// Flush writes all that is pending, without waiting out backoffs of before, and
// returns when nothing is left or ctx ends. It serves the shutdown: it works
// after Run has returned as well as beside it. The error says how many pods
// could not be written. A terminal phase that is held back is not pending.
func (m *Manager) Flush(ctx context.Context) error {
	if m.invalid != nil {
		return m.invalid
	}
	m.hurry()
	m.drive(ctx, true)
	m.mu.Lock()
	left := len(m.dirty) + len(m.stuck)
	m.mu.Unlock()
	if left == 0 {
		return nil
	}
	cause := ctx.Err()
	if cause == nil {
		cause = errors.New("refused by the API")
	}
	return fmt.Errorf("flush pod statuses: %d pods not written: %w", left, cause)
}

// hurry makes every pod that waits for its next attempt ready now.
func (m *Manager) hurry() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid := range m.stuck {
		m.dirty[uid] = struct{}{}
	}
	clear(m.stuck)
	for uid := range m.dirty {
		if e := m.entries[uid]; e.failures > 0 || !e.calm.IsZero() {
			e.failures = 0
			m.queue.add(uid)
		}
	}
	m.wake()
}

// drive hands ready pods to writers of its own, with drain until nothing is
// pending, else until ctx ends. Any number of drivers may run: they share the
// queue and the bound on writers.
func (m *Manager) drive(ctx context.Context, drain bool) {
	var writers sync.WaitGroup
	defer writers.Wait()
	wake := make(chan struct{}, 1)
	m.attach(wake)
	defer m.detach(wake)

	for ctx.Err() == nil {
		select {
		case m.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		j, ok, wait := m.begin(time.Now())
		if ok {
			writers.Go(func() {
				defer func() { <-m.slots }()
				m.finish(ctx, j, m.sync(ctx, j))
			})
			continue
		}
		<-m.slots
		if drain && m.drained() {
			return
		}
		pause(ctx, wake, wait)
	}
}

// pause waits for ctx, a signal, or the time until the next pod is due, if any.
func pause(ctx context.Context, wake <-chan struct{}, wait time.Duration) {
	var due <-chan time.Time
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		due = t.C
	}
	select {
	case <-ctx.Done():
	case <-wake:
	case <-due:
	}
}

func (m *Manager) attach(wake chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wakers[wake] = struct{}{}
}

func (m *Manager) detach(wake chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.wakers, wake)
}

func (m *Manager) drained() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.dirty) == 0
}

// begin takes the next pod that is ready. Without one it says how long until
// the next is due; zero means that none is.
func (m *Manager) begin(now time.Time) (j job, ok bool, wait time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		uid, ok, wait := m.queue.take(now)
		if !ok {
			return job{}, false, wait
		}
		e := m.entries[uid]
		if e == nil {
			m.queue.done(uid)
			continue
		}
		if e.deleted && len(e.api.Finalizers) == 0 {
			// Our delete was accepted and nothing keeps the object: it is gone,
			// whatever the informer still says.
			delete(m.dirty, uid)
			m.queue.done(uid)
			m.wake()
			continue
		}
		m.dirty[uid] = struct{}{}
		e.calm = time.Time{}
		e.retryAt = time.Time{} // what comes from now on is looked at right after
		return job{
			entry: e, uid: uid, name: e.name, api: e.api, want: e.want,
			version: e.version, reclaimed: e.reclaimed, deleted: e.deleted, heldBack: e.heldBack,
		}, true, 0
	}
}

// finish takes a writer's outcome into the entry and decides when the pod is
// looked at next.
func (m *Manager) finish(ctx context.Context, j job, out outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.wake()
	defer m.queue.done(j.uid)
	e := m.entries[j.uid]
	if e == nil || e != j.entry {
		return
	}
	if age, known := compareVersions(out.api, e.api); !known || age > 0 {
		e.hold(out.api)
	}
	e.deleted = e.deleted || out.deleted
	e.heldBack = out.heldBack
	now := time.Now()
	switch {
	case out.gone:
		m.forgotten.add(e.uid, now)
		m.drop(e)
	case out.err != nil && ctx.Err() != nil:
		m.queue.add(e.uid) // for the driver after this one
	case out.err != nil:
		m.retry(ctx, e, j, out, now)
	case out.deferred:
		e.calm = now
		m.queue.addAt(e.uid, now.Add(calmFirst))
	default:
		m.settle(e, j, out, now)
	}
}

// retry schedules the next attempt after a failed one.
func (m *Manager) retry(ctx context.Context, e *entry, j job, out outcome, now time.Time) {
	e.failures++
	permanent := refusedByAPI(out.err) && e.version == j.version
	limit := backoffMax
	if invalid(out.err) && permanent {
		limit = backoffRefused
	}
	delay := backoff(e.failures, limit, out.err)
	if out.stale && e.failures < maxInstantRetries {
		delay, permanent = 0, false
	}
	e.retryAt = now.Add(delay)
	if permanent {
		delete(m.dirty, e.uid)
		m.stuck[e.uid] = struct{}{}
	}
	m.queue.retryAt(e.uid, e.retryAt)
	entry := log.G(ctx).WithFields(fields(e)).WithError(out.err)
	entry = entry.WithField("failures", e.failures).WithField("delay", delay)
	if e.failures == 1 && delay > 0 {
		entry.Warn("pod status not written, will be tried again")
	} else {
		entry.Debug("pod status not written, will be tried again")
	}
}

// settle records that the API holds the job's version, as far as it may.
func (m *Manager) settle(e *entry, j job, out outcome, now time.Time) {
	e.failures = 0
	if out.wrote {
		switch {
		case e.written != j.version, now.Sub(e.lastWrite) > rewriteCalm:
			e.rewrites = 0
		case !j.heldBack:
			e.rewrites++
		}
		e.written, e.lastWrite = j.version, now
	}
	waits := false
	if out.wrote && e.version == j.version && e.rewrites > 0 && !e.reclaimed && !out.heldBack {
		// Somebody may have undone the write before its answer came, which Observe heard then.
		waits = m.queue.putOff(e.uid, now.Add(rewriteDelay(e.rewrites)))
	}
	if out.heldBack {
		m.queue.addAt(e.uid, now.Add(holdRecheck))
	}
	if e.version != j.version {
		m.plan(e, now)
		return
	}
	if out.refused != nil {
		e.want = nil // made from a status that the API no longer holds
	} else if !e.since.IsZero() {
		m.metrics.sync.Observe(now.Sub(e.since).Seconds())
	}
	e.since = time.Time{}
	e.share()
	if !m.queue.busy[j.uid] && !waits {
		delete(m.dirty, e.uid)
	}
}
