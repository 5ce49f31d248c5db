package logs

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
	"github.com/burstlet/burstlet/backend/ecs/task"
	"github.com/burstlet/burstlet/backend/pause"
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

// readLimit bounds one reading, retries and all.
const readLimit = time.Minute

// Run reads the logs that are queued of containers that ended, until the context ends:
// one after the other, so that those who read logs find the rate that AWS allows hardly
// used. Facts wait for none beyond a bound.
func (l *Logs) Run(ctx context.Context) error {
	known, delay := l.known, time.Duration(0)
	for ctx.Err() == nil {
		o, due, until := known.NextLogRead(time.Now())
		if !due {
			l.idle(ctx, until)
			continue
		}
		words, found, err := l.end(ctx, o)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, backend.ErrThrottled), errors.Is(err, backend.ErrUnavailable):
			// Nothing else can be read now either.
			known.Requeue(o)
			delay = min(max(2*delay, time.Second), messageRetry)
			if pause.For(ctx, delay) != nil {
				return nil //nolint:nilerr // the context's: an orderly end
			}
			continue
		case err != nil: // it never can be: said as the kubelet does
			known.Terminated(o, task.Termination{Message: fmt.Sprintf("Error on reading termination message "+
				"from logs: %v", err)})
		default:
			next, more := o.Again(time.Now())
			if found {
				known.Marked(o)
			}
			if found || !more {
				known.Terminated(o, words)
			} else {
				known.Requeue(next)
			}
		}
		delay = 0
	}
	return nil
}

// idle waits until a time (zero: for ever) or until a log is queued.
func (l *Logs) idle(ctx context.Context, until time.Time) {
	var due <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
	case <-due:
	case <-l.known.LogReads():
	}
}

// end is what the end of a container's log says: its supervisor's report (found is true
// then), or the end itself within the kubelet's bounds.
func (l *Logs) end(ctx context.Context, o task.LogRead) (out task.Termination, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	stream := identity.LogStream(o.Container, o.ARN)
	page, err := l.streams.last(ctx, stream, maxMessageLines+1) // the last may be a report
	if err == nil && len(page.lines) == 0 {                     // a page may be empty though there is more
		page, err = l.streams.backward(ctx, stream, page.back)
	}
	if err != nil {
		return task.Termination{}, false, err
	}
	for _, line := range slices.Backward(page.lines) {
		if _, report, ok := intask.CutReport(line.text); ok {
			id, _ := l.known.Identity(o.ARN)
			if out = task.TerminationOf(id, o.Container, report); !report.FromLogs {
				return out, true, nil
			}
			found = true
			break
		}
	}
	if o.Fallback {
		out.Message = endOfLog(withoutReports(page.lines))
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
