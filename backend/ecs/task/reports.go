package task

import (
	"slices"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/identity"
)

// A report is looked for a while after the end was first seen, for no line can be read
// sooner, and then every reportStep, later every second one, until reportLast after the
// end, whose reading says what there is.
const (
	reportStep = 2 * time.Second
	reportSlow = 5 * reportStep
	reportLast = 20 * time.Second
)

// LogLag is how long after it was written a line may be missing from CloudWatch: the log
// driver sends what it has every 5 seconds, also after its container has ended (shim-loggers,
// awslogs: defaultForceFlushInterval), and it can be read 1 to 3 seconds later, seldom more.
// Unverified: no page gives a bound.
const LogLag = 10 * time.Second

// LogRead is a container that ended and whose final log is unread: the report of its
// supervisor; without one, of a container that failed, the end of its log, where that is
// its termination message (terminationMessagePolicy FallbackToLogsOnError).
type LogRead struct {
	// ARN is the task's, Container the container's name.
	ARN, Container string
	// Fallback is true where the end of the log is the message without a report.
	Fallback bool
	// seen is when its end was first seen, last when the log says all that it will.
	seen, last time.Time
	// due is when its log is to be read next.
	due time.Time
}

// newLogRead is that of a container that was first seen ended now. Where it was not watched
// before, its end may be an old one.
func newLogRead(arn string, id identity.Container, c backend.ContainerFacts, now time.Time, watched bool) LogRead {
	o := LogRead{ARN: arn, Container: c.Name, Fallback: id.Fallback && c.ExitCode != 0, seen: now, due: now}
	o.last = LogComplete(id, c)
	if !id.Supervised { // there is no report to look for
		o.due = o.last
	} else if first := now.Add(reportStep); watched && first.Before(o.last) {
		o.due = first
	}
	return o
}

// LogComplete is when the log of a container that ended has all that it will, its end
// marked by a supervisor's report or not.
func LogComplete(id identity.Container, c backend.ContainerFacts) time.Time {
	if id.Supervised {
		return c.FinishedAt.Add(reportLast)
	}
	return c.FinishedAt.Add(LogLag)
}

// Again is the next reading after one at a time that found no report; false after the
// last.
func (o LogRead) Again(at time.Time) (LogRead, bool) {
	if !at.Before(o.last) {
		return o, false
	}
	after := reportStep
	for !o.seen.Add(after).After(at) {
		if after += reportStep; after > reportSlow {
			after += reportStep
		}
	}
	o.due = o.seen.Add(after)
	if o.due.After(o.last) {
		o.due = o.last
	}
	return o, true
}

// Termination is what a container's log says of its end.
type Termination struct {
	// Message is its termination message.
	Message string
	// Reason, Killed and Hook are its supervisor's: ContainerFacts.Reason, Killed and
	// HookFailed.
	Reason, Killed, Hook string
}

// queueLogReads queues the containers of a task that ended by themselves and whose final
// log is unread. An end that was seen is held back meanwhile.
func (m *Known) queueLogReads(arn string, e *entry, o *Observation, watched bool) {
	if m.queued == nil {
		return
	}
	noted := len(m.logReads)
	for i, c := range e.facts.Containers {
		id := e.id.Containers[i]
		ended := c.State() == backend.Exited && !c.NeverRan() && c.Reason != reasonUnknown
		wanted := id.Supervised || id.Fallback && c.ExitCode != 0
		if _, known := e.terminations[c.Name]; known || !ended || !wanted {
			continue
		}
		if e.terminations == nil {
			e.terminations = map[string]Termination{}
		}
		e.terminations[c.Name] = Termination{}
		m.enqueue(newLogRead(arn, id, c, o.now, watched))
		if watched && id.Supervised && e.endTold(id) == nil {
			e.holdEnd(c.Name, containerNamed(o.before.Containers, c.Name).Healthy, o.now)
		}
	}
	if len(m.logReads) > noted {
		wake(m.queued)
	}
}

// enqueue puts a reading where it is due.
func (m *Known) enqueue(o LogRead) {
	at, _ := slices.BinarySearchFunc(m.logReads, o.due, func(other LogRead, due time.Time) int {
		if other.due.After(due) {
			return 1
		}
		return -1 // after those that are due at the same time
	})
	m.logReads = slices.Insert(m.logReads, at, o)
}

// complete adds to what AWS says of the ends of containers what was read.
func (e *entry) complete() {
	for i := range e.facts.Containers {
		if c := &e.facts.Containers[i]; c.State() == backend.Exited {
			e.termination(e.id.Containers[i]).complete(c)
		}
	}
}

// complete adds a termination to what AWS says of a container.
func (t Termination) complete(c *backend.ContainerFacts) {
	c.Message, c.Killed, c.HookFailed = withMessage(c.Message, t.Message), t.Killed, t.Hook
	if c.Reason == "" {
		c.Reason = t.Reason
	}
	c.OOM = c.OOM || t.Reason == reasonOOM
}

// withMessage joins as the kubelet does.
func withMessage(why, message string) string {
	if why == "" || message == "" {
		return why + message
	}
	return why + ": " + message
}

// LogReads receives after a reading was queued; nil where nobody reads logs.
func (m *Known) LogReads() <-chan struct{} { return m.queued }

// NextLogRead takes the reading that is due first; false while none is due, until the
// time (zero: until one is queued).
func (m *Known) NextLogRead(now time.Time) (next LogRead, due bool, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.logReads) > 0 {
		o := m.logReads[0]
		if m.tasks[o.ARN] != nil && o.due.After(now) {
			return LogRead{}, false, o.due
		}
		m.logReads = m.logReads[1:]
		if m.tasks[o.ARN] != nil {
			return o, true, time.Time{}
		}
	}
	m.logReads = nil
	return LogRead{}, false, time.Time{}
}

// Requeue puts a reading back.
func (m *Known) Requeue(o LogRead) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.enqueue(o)
}

// Marked notes that the log of a container can be read to its end: its supervisor's report
// is there.
func (m *Known) Marked(o LogRead) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.tasks[o.ARN]; e != nil {
		if e.marked == nil {
			e.marked = map[string]bool{}
		}
		e.marked[o.Container] = true
	}
}

// LogEnd is when the log of a container of a task that ended can be read to its end at the
// latest; zero if it can be now.
func (m *Known) LogEnd(arn string, c backend.ContainerFacts) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.tasks[arn]
	if e == nil || e.marked[c.Name] {
		return time.Time{}
	}
	for _, id := range e.id.Containers {
		if id.Name == c.Name {
			return LogComplete(id, c)
		}
	}
	return time.Time{}
}

// Terminated keeps what a reading found, unless the task is not known any more, and shows
// the end of its container.
func (m *Known) Terminated(o LogRead, found Termination) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.tasks[o.ARN]
	if e == nil {
		return
	}
	delete(e.held, o.Container)
	if found == (Termination{}) {
		return
	}
	e.terminations[o.Container] = found
	for i := range e.facts.Containers {
		if c := &e.facts.Containers[i]; c.Name == o.Container && e.endTold(e.id.Containers[i]) == nil {
			found.complete(c)
		}
	}
}
