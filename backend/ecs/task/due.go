package task

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// ListDue is true when all tasks are to be listed and read anew: after a while, soon
// where it is not known what there is, and at once when what was launched without a
// reply must show.
func (m *Known) ListDue(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.listFrom.IsZero():
		return true
	case !m.partlyFrom.IsZero() && now.Sub(m.partlyFrom) < readRest:
		return false
	case m.overdue(m.born.Add(m.settle), now):
		return true
	}
	period := restPeriod(m.live(), m.hints)
	for _, since := range m.unresolved {
		if m.overdue(since.Add(m.settle), now) {
			return true
		}
		period = min(period, listOpen)
	}
	for _, e := range m.tasks {
		if !e.confirmed {
			period = min(period, listOpen)
		}
	}
	return now.Sub(m.listFrom) >= period
}

// overdue is true when a listing must have begun by a time that has come, and has not.
func (m *Known) overdue(by, now time.Time) bool { return m.listFrom.Before(by) && !now.Before(by) }

// live counts the tasks that may change.
func (m *Known) live() int {
	n := 0
	for _, e := range m.tasks {
		if e.facts.Live {
			n++
		}
	}
	return n
}

// Unread are, of a listing, the tasks of which something new may be learnt: those
// not known, and all that live. What has stopped does not change any more.
func (m *Known) Unread(arns []string) (ask []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, arn := range arns {
		if e := m.tasks[arn]; e != nil {
			e.confirmed = true
			continue
		}
		if _, gone := m.removed[arn]; !gone && !m.foreign[arn] {
			ask = append(ask, arn)
		}
	}
	for arn, e := range m.tasks {
		if e.facts.Live {
			ask = append(ask, arn)
		} else {
			e.confirmed = true
		}
	}
	slices.Sort(ask)
	return slices.Compact(ask)
}

// ListedSince is true if a complete listing was read that began no earlier.
func (m *Known) ListedSince(since time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.listFrom.IsZero() && !m.listFrom.Before(since)
}

// Listed notes that a complete listing, which began at from, was read, and drops
// what is too old to matter.
func (m *Known) Listed(from, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listFrom, m.movedFrom = from, from
	for k, since := range m.unresolved {
		if !from.Before(since.Add(m.settle)) {
			delete(m.unresolved, k)
		}
	}
	for arn, at := range m.removed {
		if now.Sub(at) >= removedMemory {
			delete(m.removed, arn)
		}
	}
	for k, at := range m.removedKey {
		if now.Sub(at) >= removedMemory {
			delete(m.removedKey, k)
		}
	}
}

// Partly notes that a listing, which began at from, was read but for tasks that are not
// known: nothing is known to be absent by it. It is true where reads may go on without
// these, after a complete listing: before, a pod that runs in one would count as lost, and
// run twice.
func (m *Known) Partly(from time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.partlyFrom = from
	return !m.listFrom.IsZero()
}

// checkedPeriod is how often settled tasks with health checks are read: of these
// EventBridge tells nothing (ECS developer guide, "Amazon ECS task state change
// events"). The caller holds the lock.
func (m *Known) checkedPeriod(now time.Time) time.Duration {
	n := 0
	for _, e := range m.tasks {
		if e.facts.Live && e.isChecked(now) {
			n++
		}
	}
	return restPeriod(n, false)
}

// isChecked is true for a task with a health check, of which nobody tells.
func (e *entry) isChecked(now time.Time) bool {
	return (e.probed || hasVerdict(&e.facts)) && (!e.isTold(now) || !e.told.against.IsZero())
}

// isWaitedFor is true for a task of which something has been missing for a while, before it
// is to be asked for again.
func (e *entry) isWaitedFor(now time.Time) bool {
	for _, since := range []time.Time{e.missing, e.unansweredFrom, e.unaddressed} {
		if !since.IsZero() && now.Sub(e.read) < missingPeriod(now.Sub(since)) {
			return true
		}
	}
	return false
}

// Moving are the tasks that come or go, and those with health checks, once they are due.
func (m *Known) Moving(now time.Time) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var arns []string
	checkedEvery := m.checkedPeriod(now)
	for arn, e := range m.tasks {
		switch {
		case !e.facts.Live:
		case e.due, e.isChecked(now) && now.Sub(e.read) >= checkedEvery:
			arns = append(arns, arn)
		case e.settled && e.missing.IsZero():
		case e.isWaitedFor(now):
		case now.Sub(e.read) >= readMoving:
			arns = append(arns, arn)
		}
	}
	if len(arns) == 0 || now.Sub(m.movedFrom) < movingPeriod(len(arns)) {
		return nil
	}
	m.movedFrom = now
	slices.Sort(arns)
	return arns
}

// Asked are the tasks of some pods of which something new may be learnt: not those
// that have stopped, nor those that ECS or their agent told of a moment ago.
func (m *Known) Asked(uids []types.UID, now time.Time) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var arns []string
	for _, uid := range uids {
		for _, arn := range m.byUID[uid] {
			if e := m.tasks[arn]; e.facts.Live && (e.due || now.Sub(later(e.read, e.told.at)) >= readMoving) {
				arns = append(arns, arn)
			}
		}
	}
	slices.Sort(arns)
	return slices.Compact(arns)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Hinted notes that the tasks of a pod may have changed.
func (m *Known) Hinted(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, arn := range m.byUID[uid] {
		m.tasks[arn].due = true
	}
}
