package ecs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/ecs/intask"
)

// The bounds of a termination message that is the end of a log are the kubelet's
// (container runtime types.go: MaxContainerTerminationMessageLogLength and
// MaxContainerTerminationMessageLogLines).
const (
	maxMessageBytes = 2 << 10
	maxMessageLines = 80
)

// messageRetry bounds the pause after a log could not be read.
const messageRetry = 30 * time.Second

// A report is looked for when the end is first seen (most agents have flushed the log
// before ECS shows the end), and again after reportFirst, twice that and so on until
// reportLast, whose reading says what there is.
const (
	reportFirst = 500 * time.Millisecond
	reportLast  = 8 * time.Second
)

// owed is a container that ended and whose last words are not read yet: the report of
// its supervisor; without one, of a container that failed, its log, where that is its
// termination message (terminationMessagePolicy FallbackToLogsOnError).
type owed struct {
	arn, container string
	// fallback is true where the end of the log is the message without a report.
	fallback bool
	// seen is when its end was first seen, last when the log says all that it will.
	seen, last time.Time
	// due is when its log is to be read next.
	due time.Time
}

// owedFor is what a container owes that was first seen ended now.
func owedFor(arn string, id identity.Container, c backend.ContainerFacts, now time.Time) owed {
	o := owed{arn: arn, container: c.Name, fallback: id.Fallback && c.ExitCode != 0, seen: now, due: now}
	if o.last = c.FinishedAt.Add(reportLast); !id.Supervised { // there is no report to look for
		o.last = c.FinishedAt.Add(logLag)
		o.due = o.last
	}
	return o
}

// again is what is owed after a reading at some time that found no report; false after
// the last.
func (o owed) again(at time.Time) (owed, bool) {
	if !at.Before(o.last) {
		return o, false
	}
	after := reportFirst
	for !o.seen.Add(after).After(at) {
		after *= 2
	}
	o.due = o.seen.Add(after)
	if o.due.After(o.last) {
		o.due = o.last
	}
	return o, true
}

// finalWords are what a container's log says of its end.
type finalWords struct {
	message string
	// reason, killed and hook are its supervisor's: ContainerFacts.Reason, Killed and
	// HookFailed.
	reason, killed, hook string
}

// owes notes the containers of a task whose last words are to be read: who ended by
// itself, was not read, and does not wait already. What was seen to end is held back
// meanwhile.
func (m *memory) owes(arn string, e *entry, o *observation, watched bool) {
	if m.messages == nil {
		return
	}
	noted := len(m.unsaid)
	for i, c := range e.facts.Containers {
		id := e.id.Containers[i]
		ended := c.State() == backend.Exited && !c.NeverRan() && c.Reason != reasonUnknown
		wanted := id.Supervised || id.Fallback && c.ExitCode != 0
		if _, known := e.words[c.Name]; known || !ended || !wanted {
			continue
		}
		if e.words == nil {
			e.words = map[string]finalWords{}
		}
		e.words[c.Name] = finalWords{}
		m.await(owedFor(arn, id, c, o.now))
		if watched && id.Supervised {
			e.holdEnd(c.Name, containerNamed(o.before.Containers, c.Name).Healthy, o.now)
		}
	}
	if len(m.unsaid) > noted {
		select {
		case m.messages <- struct{}{}:
		default:
		}
	}
}

// await puts something owed where it is due.
func (m *memory) await(o owed) {
	at, _ := slices.BinarySearchFunc(m.unsaid, o.due, func(other owed, due time.Time) int {
		if other.due.After(due) {
			return 1
		}
		return -1 // after those that are due at the same time
	})
	m.unsaid = slices.Insert(m.unsaid, at, o)
}

// tell completes what AWS says of the ends of containers by what was read.
func (e *entry) tell() {
	for i := range e.facts.Containers {
		e.words[e.facts.Containers[i].Name].tell(&e.facts.Containers[i])
	}
}

func (w finalWords) tell(c *backend.ContainerFacts) {
	c.Message, c.Killed, c.HookFailed = withMessage(c.Message, w.message), w.killed, w.hook
	if c.Reason == "" {
		c.Reason = w.reason
	}
	c.OOM = c.OOM || w.reason == reasonOOM
}

// withMessage joins as the kubelet does.
func withMessage(why, message string) string {
	if why == "" || message == "" {
		return why + message
	}
	return why + ": " + message
}

// nextUnsaid takes the container whose log is to be read next; false while none is due,
// until the time (zero: until something is owed).
func (m *memory) nextUnsaid(now time.Time) (next owed, due bool, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.unsaid) > 0 {
		o := m.unsaid[0]
		if m.tasks[o.arn] != nil && o.due.After(now) {
			return owed{}, false, o.due
		}
		m.unsaid = m.unsaid[1:]
		if m.tasks[o.arn] != nil {
			return o, true, time.Time{}
		}
	}
	m.unsaid = nil
	return owed{}, false, time.Time{}
}

// unheard puts back what could not be read.
func (m *memory) unheard(o owed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.await(o)
}

// said keeps last words, unless nobody knows the task any more, and shows the end.
func (m *memory) said(o owed, words finalWords) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.tasks[o.arn]
	if e == nil {
		return
	}
	delete(e.held, o.container)
	if words == (finalWords{}) {
		return
	}
	e.words[o.container] = words
	for i := range e.facts.Containers {
		if c := &e.facts.Containers[i]; c.Name == o.container {
			words.tell(c)
		}
	}
}

// messages reads termination messages, one after the other, so that those who read
// logs find the rate that AWS allows hardly used. Facts wait for none beyond endHold.
type messages struct{ logs *logs }

// Run reads what is owed until the context ends.
func (r messages) Run(ctx context.Context) error {
	mem, delay := r.logs.pods.mem, time.Duration(0)
	for ctx.Err() == nil {
		o, due, until := mem.nextUnsaid(time.Now())
		if !due {
			r.idle(ctx, until)
			continue
		}
		words, found, err := r.end(ctx, o)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, backend.ErrThrottled), errors.Is(err, backend.ErrUnavailable):
			// Nothing else can be read now either.
			mem.unheard(o)
			delay = min(max(2*delay, time.Second), messageRetry)
			if pause(ctx, delay) != nil {
				return nil //nolint:nilerr // the context's: an orderly end
			}
			continue
		case err != nil: // it never can be: said as the kubelet does
			mem.said(o, finalWords{message: fmt.Sprintf("Error on reading termination message from logs: %v", err)})
		default:
			next, more := o.again(time.Now())
			if found || !more {
				mem.said(o, words)
			} else {
				mem.unheard(next)
			}
		}
		delay = 0
	}
	return nil
}

// idle waits until a time (zero: for ever) or until more is owed.
func (r messages) idle(ctx context.Context, until time.Time) {
	var due <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
	case <-due:
	case <-r.logs.pods.mem.messages:
	}
}

// end is what the end of a container's log says: its supervisor's report (found is true
// then), or the end itself within the kubelet's bounds.
func (r messages) end(ctx context.Context, o owed) (out finalWords, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	stream := identity.LogStream(o.container, o.arn)
	page, err := r.logs.streams.last(ctx, stream, maxMessageLines+1) // the last may be a report
	if err == nil && len(page.lines) == 0 {                          // a page may be empty though there is more
		page, err = r.logs.streams.backward(ctx, stream, page.back)
	}
	if err != nil {
		return finalWords{}, false, err
	}
	for _, line := range slices.Backward(page.lines) {
		if _, report, ok := intask.CutReport(line.text); ok {
			if out = r.reported(o, report); !report.FromLogs {
				return out, true, nil
			}
			found = true
			break
		}
	}
	if o.fallback {
		out.message = endOfLog(withoutReports(page.lines))
	}
	return out, found, nil
}

// endOfLog is a message that is the end of a log, within the kubelet's bounds.
func endOfLog(lines []logLine) string {
	lines = lines[max(0, len(lines)-maxMessageLines):]
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(strings.TrimSuffix(line.text, "\n"))
		b.WriteByte('\n')
	}
	text := b.String()
	// Cut inside a character, as it may be, the rest of that is none.
	return strings.ToValidUTF8(text[max(0, len(text)-maxMessageBytes):], "")
}

// reported are the last words of a supervisor.
func (r messages) reported(o owed, report intask.Report) finalWords {
	out := finalWords{message: report.Message, reason: report.Reason, killed: report.Probe}
	switch id, _ := r.logs.pods.mem.identity(o.arn); {
	case report.Hook != nil:
		out.hook = "PostStart"
		if out.message == "" {
			out.message = report.Hook.Message(o.container, fmt.Sprintf("%s_%s(%s)", id.Name, id.Namespace, id.UID))
		}
	case report.PreStop != nil:
		out.hook = "PreStop"
	}
	return out
}
