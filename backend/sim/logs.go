package sim

import (
	"context"
	"fmt"
	"io"
	"sort"
	"sync"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// logsView lends backend.Logs.
type logsView struct{ *view }

// Open reads what the container would have written: a line that says that it is
// simulated, and what its command line echoes.
func (v logsView) Open(ctx context.Context, ref backend.ContainerRef, opts backend.LogOptions) (io.ReadCloser, error) {
	op := containerOp("read log of", ref)
	if err := v.request(ctx, op); err != nil {
		return nil, err
	}
	l, err := v.open(ctx, ref, opts)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	if err := v.reply(ctx, op); err != nil {
		return nil, err
	}
	return l, nil
}

func (v logsView) open(ctx context.Context, ref backend.ContainerRef, opts backend.LogOptions) (io.ReadCloser, error) {
	now := v.lock()
	defer v.mu.Unlock()
	a, c := v.lookup(ref.Pod, ref.Name, ref.Attempt, now)
	if c == nil {
		return nil, backend.Errorf(backend.ErrNotFound, "no such container")
	}
	l := &logReader{done: ctx.Done(), cause: ctx.Err, watched: watched{v.Remote, a, c}, opts: opts}
	l.closing = make(chan struct{})
	l.left = -1
	if opts.LimitBytes != nil {
		l.left = *opts.LimitBytes
	}
	if opts.Tail != nil {
		written, _ := l.written(now)
		l.next = max(0, written-int(min(*opts.Tail, int64(written))))
	}
	return l, nil
}

// logReader is one stream. Read blocks only when following.
type logReader struct {
	watched
	opts backend.LogOptions
	// done and cause are those of the context that opened the stream.
	done    <-chan struct{}
	cause   func() error
	closing chan struct{}
	once    sync.Once

	next   int    // the line to read next
	buffer []byte // what is formatted and not yet read
	left   int64  // bytes until the limit; negative: no limit
}

// Read returns the next part of the log.
func (l *logReader) Read(p []byte) (int, error) {
	for len(l.buffer) == 0 {
		if l.left == 0 {
			return 0, io.EOF
		}
		more, err := l.fill()
		if err != nil {
			return 0, err
		}
		if more != nil {
			if err := more(); err != nil {
				return 0, err
			}
		}
	}
	n := copy(p, l.buffer)
	l.buffer = l.buffer[n:]
	return n, nil
}

// fill formats the lines that were written since. When there were none it
// returns io.EOF at the end, or how to wait for more.
func (l *logReader) fill() (wait func() error, err error) {
	now := l.remote.lock()
	defer l.remote.mu.Unlock()
	lines, upcoming := l.linesFrom(&l.next, now)
	for _, line := range lines {
		l.format(line)
	}
	if len(l.buffer) > 0 {
		return nil, nil
	}
	if !l.opts.Follow || l.container.exited(now) || l.attempt.isGone(now) {
		return nil, io.EOF
	}
	changed := l.attempt.wait()
	return func() error { return l.waitFor(changed, upcoming) }, nil
}

func (l *logReader) waitFor(changed <-chan struct{}, upcoming time.Time) error {
	var alarm <-chan time.Time
	if !upcoming.IsZero() {
		timer := time.NewTimer(time.Until(upcoming))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-changed:
	case <-alarm:
	case <-l.closing:
		return io.ErrClosedPipe
	case <-l.done:
		return l.cause()
	}
	return nil
}

// written is how many lines the container has written by now, and when the next
// one or the end comes.
func (w watched) written(now time.Time) (count int, upcoming time.Time) {
	c := w.container
	end := c.finished
	if c.started.IsZero() {
		return 0, end
	}
	if w.attempt.isGone(now) {
		end = earliest(end, w.attempt.gone)
	}
	if !reached(c.started, now) {
		return 0, c.started
	}
	until, lines := earliest(end, now), c.program.lines
	n := sort.Search(len(lines), func(i int) bool { return c.started.Add(lines[i].at).After(until) })
	if n < len(lines) {
		if at := c.started.Add(lines[n].at); end.IsZero() || !at.After(end) {
			return c.firstLines() + n, at
		}
	}
	return c.firstLines() + n, end
}

// firstLines is how many lines come before those that are kept: one that says
// that the container is simulated, and what was dropped.
func (c *container) firstLines() int { return 1 + c.program.shed }

// linesFrom returns what was written from the next line on, and moves it.
func (w watched) linesFrom(next *int, now time.Time) (lines []stamped, upcoming time.Time) {
	count, upcoming := w.written(now)
	c := w.container
	if *next == 0 && count > 0 && c.program.shed == 0 {
		lines = append(lines, stamped{c.started, "simulated container " + c.name + ": no process runs\n", 1})
	}
	for i := max(*next, c.firstLines()); i < count; i++ {
		line := c.program.lines[i-c.firstLines()]
		text := line.text
		if !line.open {
			text += "\n"
		}
		lines = append(lines, stamped{c.started.Add(line.at), text, line.fd})
	}
	*next = max(*next, count)
	return lines, upcoming
}

// maxLogged is how much is kept of what a container's program writes in time.
const maxLogged = 4 << 20

// lineCost is what each line takes beside its text.
const lineCost = 64

// record adds what the container's own program writes now to its log, and drops
// the older half of a log that is too long.
func (w watched) record(now time.Time, fd int, text string) {
	p := &w.container.program
	added := linesOf(text, fd, now.Sub(w.container.started))
	p.lines = append(p.lines, added...)
	if p.written += len(text) + lineCost*len(added); p.written > maxLogged {
		dropped := len(p.lines) / 2
		p.lines, p.shed, p.written = append([]line(nil), p.lines[dropped:]...), p.shed+dropped, 0
		for _, line := range p.lines {
			p.written += len(line.text) + lineCost
		}
	}
	w.attempt.wake()
}

// stamped is a line, or its beginning, and when it was written.
type stamped struct {
	at   time.Time
	text string
	fd   int
}

func (l *logReader) format(s stamped) {
	if s.at.Before(l.opts.Since) || l.left == 0 {
		return
	}
	text := s.text
	if l.opts.Timestamps {
		text = s.at.UTC().Format(time.RFC3339Nano) + " " + text
	}
	if l.left >= 0 {
		text = text[:min(int64(len(text)), l.left)]
		l.left -= int64(len(text))
	}
	l.buffer = append(l.buffer, text...)
}

// Close ends the stream and a Read that waits.
func (l *logReader) Close() error {
	l.once.Do(func() { close(l.closing) })
	return nil
}
