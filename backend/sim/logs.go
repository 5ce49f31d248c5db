package sim

import (
	"context"
	"fmt"
	"io"
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
	l := &logReader{done: ctx.Done(), cause: ctx.Err, remote: v.Remote, attempt: a, container: c, opts: opts}
	l.closing = make(chan struct{})
	l.left = -1
	if opts.LimitBytes != nil {
		l.left = *opts.LimitBytes
	}
	if opts.Tail != nil {
		_, written, _ := l.written(now)
		l.next = max(0, written-int(min(*opts.Tail, int64(written))))
	}
	return l, nil
}

// logReader is one stream. Read blocks only when following.
type logReader struct {
	remote    *Remote
	attempt   *attempt
	container *container
	opts      backend.LogOptions
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
	all, count, upcoming := l.written(now)
	for ; l.next < count; l.next++ {
		l.format(all[l.next])
	}
	if len(l.buffer) > 0 {
		return nil, nil
	}
	if !l.opts.Follow || l.container.exited(now) || l.attempt.isGone(now) {
		return nil, io.EOF
	}
	changed := l.attempt.wait()
	return func() error { return l.wait(changed, upcoming) }, nil
}

func (l *logReader) wait(changed <-chan struct{}, upcoming time.Time) error {
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

// written returns all lines the container will write as things stand, how many
// of them it has written, and when the next line or the end comes.
func (l *logReader) written(now time.Time) (all []stamped, count int, upcoming time.Time) {
	c := l.container
	if c.started.IsZero() {
		return nil, 0, c.finished
	}
	end := c.finished
	if l.attempt.isGone(now) {
		end = earliest(end, l.attempt.gone)
	}
	all = append(all, stamped{c.started, "simulated container " + c.name + ": no process runs\n"})
	for _, line := range c.program.lines {
		at := c.started.Add(line.at)
		if !end.IsZero() && at.After(end) {
			break
		}
		text := line.text
		if !line.open {
			text += "\n"
		}
		all = append(all, stamped{at, text})
	}
	for count < len(all) && reached(all[count].at, now) {
		count++
	}
	if count < len(all) {
		return all, count, all[count].at
	}
	return all, count, end
}

// stamped is a line, or its beginning, and when it was written.
type stamped struct {
	at   time.Time
	text string
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
