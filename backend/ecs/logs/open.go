package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/ecs/intask"
	"github.com/burstlet/burstlet/backend/ecs/task"
	"github.com/burstlet/burstlet/backend/pause"
)

// Numbers of reading logs.
const (
	// logPoll is how often a log is read that somebody follows, and logPollIdle
	// the same once nothing was new for a while.
	logPoll     = time.Second
	logPollIdle = 2 * time.Second
	logIdle     = 15 * time.Second
	// inspectFirst is how soon the task of a log that somebody follows is inspected after
	// its last line, and inspectMax how often it is as long as none comes.
	inspectFirst = 2 * time.Second
	inspectMax   = 16 * time.Second
	// markPoll is how often it is asked whether the end of a log was found, which reading it
	// for the supervisor's report does (Logs.Run).
	markPoll = 250 * time.Millisecond
)

// timestamps is the kubelet's RFC3339NanoFixed (pkg/kubelet/types/constants.go): nine
// digits, where RFC3339Nano would drop zeros.
const timestamps = "2006-01-02T15:04:05.000000000Z07:00"

// Tasks is what reading logs needs of the node's tasks, beside what is known of them.
type Tasks interface {
	// Inspect and List are those of backend.Pods.
	Inspect(ctx context.Context, uids []types.UID) ([]backend.PodFacts, error)
	List(ctx context.Context) ([]backend.PodFacts, error)
	// Local returns a time of AWS's clock on this machine's; zero for nil.
	Local(at *time.Time) time.Time
}

// Logs is backend.Logs on CloudWatch Logs. A task has one stream for each
// container; the log of the previous attempt of a container is that of the task
// before.
type Logs struct {
	streams *logStreams
	known   *task.Known
	tasks   Tasks
}

// New reads the logs of a group in a region.
func New(api API, region, group string, known *task.Known, tasks Tasks) *Logs {
	return &Logs{streams: newLogStreams(api, region, group), known: known, tasks: tasks}
}

// Open implements backend.Logs. Of a container that has just ended it waits for
// the lines that CloudWatch does not show yet.
func (l *Logs) Open(ctx context.Context, ref backend.ContainerRef, opts backend.LogOptions) (io.ReadCloser, error) {
	r, err := l.open(ctx, ref, opts)
	if err != nil {
		return nil, fmt.Errorf("read the log of container %s of pod %s/%s: %w",
			ref.Name, ref.Pod.Namespace, ref.Pod.Name, err)
	}
	return r, nil
}

func (l *Logs) open(ctx context.Context, ref backend.ContainerRef, opts backend.LogOptions) (io.ReadCloser, error) {
	arn, _, err := l.container(ctx, ref)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	pr, pw := io.Pipe()
	r := &logReader{
		logs: l, ref: ref, opts: opts, out: pw, left: -1,
		stream: identity.LogStream(ref.Name, arn),
	}
	if opts.LimitBytes != nil {
		r.left = *opts.LimitBytes
	}
	// Before anything is promised: what the caller may not read fails here.
	first, err := r.begin(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	s := &logStream{PipeReader: pr, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		_ = pw.CloseWithError(r.copy(ctx, first)) // a pipe's never fails
	}()
	return s, nil
}

// container finds the task that an attempt of a container is in, and what is known
// of it. Errors: NotFound.
func (l *Logs) container(ctx context.Context, ref backend.ContainerRef) (string, backend.ContainerFacts, error) {
	arn, c, ok := l.find(ref)
	if !ok && !l.known.IsListed() {
		if _, err := l.tasks.List(ctx); err != nil {
			return "", c, err
		}
		arn, c, ok = l.find(ref)
	}
	if !ok {
		return "", c, backend.Errorf(backend.ErrNotFound, "no task of it is known")
	}
	return arn, c, nil
}

func (l *Logs) find(ref backend.ContainerRef) (string, backend.ContainerFacts, bool) {
	for _, f := range l.known.Facts(ref.Pod.UID) {
		if f.Attempt != ref.Pod.Attempt {
			continue
		}
		for _, c := range f.Containers {
			if c.Name == ref.Name && c.Attempt == ref.Attempt {
				return f.ID, c, true
			}
		}
	}
	return "", backend.ContainerFacts{}, false
}

// logStream is the reader's end. Close ends what reads for it, and waits for it.
type logStream struct {
	*io.PipeReader
	cancel context.CancelFunc
	done   chan struct{}
}

// Close implements io.Closer.
func (s *logStream) Close() error {
	s.cancel()
	err := s.PipeReader.Close()
	<-s.done
	return err
}

// logReader reads one log for one caller.
type logReader struct {
	logs   *Logs
	ref    backend.ContainerRef
	stream string
	opts   backend.LogOptions
	out    *io.PipeWriter
	left   int64 // bytes until the limit; negative: no limit
	// inspected is when the task was last inspected, or a line came, and inspectIn how
	// long after it is inspected again.
	inspected time.Time
	inspectIn time.Duration
}

// errLimit: the caller wants no more bytes.
var errLimit = errors.New("the limit is reached")

// begin reads the first page. A container that has just started may have written what
// CloudWatch does not show yet: who does not follow its log would see nothing of it.
func (r *logReader) begin(ctx context.Context) (logPage, error) {
	for {
		if _, err := r.settled(ctx); err != nil {
			return logPage{}, err
		}
		page, err := r.first(ctx)
		if err != nil || r.opts.Follow || len(withoutReports(page.lines)) > 0 || !r.isNew() {
			return page, err
		}
		if err := pause.For(ctx, logPoll); err != nil {
			return logPage{}, err
		}
	}
}

// isNew is true of a container that runs for less time than its first line may take.
func (r *logReader) isNew() bool {
	if t := r.opts.Tail; t != nil && *t == 0 {
		return false
	}
	_, c, ok := r.logs.find(r.ref)
	return ok && c.State() == backend.Running && time.Since(c.StartedAt) < task.LogLag
}

// first is the first page, of the end of the log with a tail.
func (r *logReader) first(ctx context.Context) (logPage, error) {
	if r.opts.Tail == nil {
		return r.logs.streams.forward(ctx, r.stream, "", r.logs.away(r.opts.Since), time.Now())
	}
	return r.tail(ctx, *r.opts.Tail)
}

// settled waits, for a container that has ended, until all that it wrote can be
// read. It is true if it has ended.
func (r *logReader) settled(ctx context.Context) (ended bool, err error) {
	if err := r.inspect(ctx); err != nil {
		return false, err
	}
	arn, c, err := r.logs.container(ctx, r.ref)
	switch {
	case errors.Is(err, backend.ErrNotFound):
		return true, nil // it was removed meanwhile
	case err != nil:
		return false, err
	case c.State() != backend.Exited:
		return false, nil
	case c.NeverRan():
		return true, nil
	}
	for {
		left := time.Until(r.logs.known.LogEnd(arn, c))
		if left <= 0 {
			return true, ctx.Err()
		}
		if err := pause.For(ctx, min(left, markPoll)); err != nil {
			return true, err
		}
	}
}

// inspect has the task read anew, now and then. What cannot be read now is as it was.
func (r *logReader) inspect(ctx context.Context) error {
	now := time.Now()
	if r.inspected.IsZero() {
		r.inspected, r.inspectIn = now, inspectFirst
	}
	if now.Sub(r.inspected) < r.inspectIn {
		return nil
	}
	r.inspected, r.inspectIn = now, min(2*r.inspectIn, inspectMax)
	if _, err := r.logs.tasks.Inspect(ctx, []types.UID{r.ref.Pod.UID}); err != nil && !transient(err) {
		return err
	}
	return nil
}

// tail finds the page that holds the n-th line from the end, and cuts it there. No
// more than one page is kept.
func (r *logReader) tail(ctx context.Context, n int64) (logPage, error) {
	page, err := r.logs.streams.last(ctx, r.stream, n+1) // one may be a report
	if err != nil {
		return logPage{}, err
	}
	page.lines = withoutReports(page.lines)
	for left := n; ; {
		if have := int64(len(page.lines)); have >= left {
			page.lines = page.lines[have-left:]
			return page, nil
		}
		before, err := r.logs.streams.backward(ctx, r.stream, page.back)
		if err != nil {
			return logPage{}, err
		}
		if len(before.lines) == 0 {
			return page, nil
		}
		before.lines = withoutReports(before.lines)
		left -= int64(len(page.lines))
		page = before
	}
}

// copy writes the page and those that follow it, until the end of the log.
func (r *logReader) copy(ctx context.Context, page logPage) error {
	last := time.Now()
	ended := false
	for {
		if err := r.write(withoutReports(page.lines)); err != nil {
			if errors.Is(err, errLimit) {
				return nil
			}
			return err
		}
		if len(page.lines) > 0 {
			last = time.Now()
			r.inspected, r.inspectIn = last, inspectFirst
		}
		if page.last {
			if !r.opts.Follow || ended {
				return nil
			}
			// Asked before the page is read that is then the last.
			var err error
			if ended, err = r.more(ctx, last); err != nil {
				return err
			}
		}
		var err error
		if page, err = r.next(ctx, page, ended); err != nil {
			return err
		}
	}
}

// more waits for new lines, and is true if there will be none but those that can
// be read now. last is when one came.
func (r *logReader) more(ctx context.Context, last time.Time) (ended bool, err error) {
	wait := logPoll
	if time.Since(last) > logIdle {
		wait = logPollIdle
	}
	if err := pause.For(ctx, wait); err != nil {
		return false, err
	}
	return r.settled(ctx)
}

// next reads the page after one. Who follows sees no more of an outage than a
// pause.
func (r *logReader) next(ctx context.Context, page logPage, ended bool) (logPage, error) {
	asOf := time.Now()
	if r.opts.Follow && !ended {
		asOf = asOf.Add(-logPoll)
	}
	for {
		next, err := r.logs.streams.forward(ctx, r.stream, page.forward, r.logs.away(r.opts.Since), asOf)
		if err == nil || !r.opts.Follow || !transient(err) {
			return next, err
		}
		if err := pause.For(ctx, logPollIdle); err != nil {
			return logPage{}, err
		}
	}
}

// transient is true of an error that goes by itself.
func transient(err error) bool {
	return errors.Is(err, backend.ErrThrottled) || errors.Is(err, backend.ErrUnavailable) &&
		!errors.Is(err, awscall.ErrNotSent)
}

// withoutReports are the lines that a container wrote itself: its supervisor's last
// one is for the backend.
func withoutReports(lines []logLine) []logLine {
	out := make([]logLine, 0, len(lines))
	for _, line := range lines {
		text, _, ok := intask.CutReport(line.text)
		if ok && text == "" {
			continue
		}
		out = append(out, logLine{line.at, text})
	}
	return out
}

// write formats lines as the kubelet does.
func (r *logReader) write(lines []logLine) error {
	if r.left == 0 {
		return errLimit
	}
	var b strings.Builder
	for _, line := range lines {
		at := r.logs.here(line.at)
		if at.Before(r.opts.Since) {
			continue
		}
		if r.opts.Timestamps {
			b.WriteString(at.UTC().Format(timestamps))
			b.WriteByte(' ')
		}
		b.WriteString(line.text)
		if !strings.HasSuffix(line.text, "\n") {
			b.WriteByte('\n')
		}
	}
	text := b.String()
	if r.left >= 0 {
		text = text[:min(int64(len(text)), r.left)]
		r.left -= int64(len(text))
	}
	if text == "" {
		return nil
	}
	if _, err := io.WriteString(r.out, text); err != nil {
		return err
	}
	if r.left == 0 {
		return errLimit
	}
	return nil
}

// here is a time of AWS's on this machine's clock, and away the reverse.
func (l *Logs) here(t time.Time) time.Time { return l.tasks.Local(&t) }

func (l *Logs) away(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(t.Sub(l.here(t)))
}
