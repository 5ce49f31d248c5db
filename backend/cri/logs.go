package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"github.com/containerd/log"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/crilog"
)

// followPoll is how often a log that does not grow is held against the state of
// its container.
const followPoll = 500 * time.Millisecond

// logs implements [backend.Logs].
type logs struct{ *remote }

// Open reads the container's log file on the host. A container that has not
// started has none: NotFound.
func (l logs) Open(ctx context.Context, ref backend.ContainerRef, opts backend.LogOptions) (io.ReadCloser, error) {
	if _, err := l.transport.current(); err != nil {
		return nil, failed(err, "open log of container %s", ref.Name)
	}
	file, err := l.logFile(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("open log of container %s: %w", ref.Name, err)
	}
	f, err := l.host.Open(ctx, file)
	if isNotExist(err) {
		return nil, backend.Errorf(backend.ErrNotFound, "open log of container %s: attempt %d has none: %w", ref.Name, ref.Attempt, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open log of container %s: %w", ref.Name, err)
	}
	if err := seekTail(f, opts.Tail); err != nil {
		return nil, errors.Join(fmt.Errorf("open log of container %s: %w", ref.Name, err), f.Close())
	}
	return l.stream(ctx, ref, file, f, opts), nil
}

// logFile is where the runtime writes the log of this attempt.
func (l logs) logFile(ctx context.Context, ref backend.ContainerRef) (string, error) {
	pod := ref.Pod
	if pod.Namespace == "" || pod.Name == "" {
		found, err := l.findContainer(ctx, pod.UID, ref.Name, ref.Attempt)
		if err != nil {
			return "", err
		}
		if pod, err = containerPodRef(found); err != nil {
			return "", err
		}
	}
	return path.Join(l.podLogDir(pod), logPath(ref.Name, ref.Attempt)), nil
}

func seekTail(f file, tail *int64) error {
	if tail == nil {
		return nil
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("find the end: %w", err)
	}
	offset, err := crilog.TailOffset(f, size, *tail)
	if err != nil {
		return err
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return fmt.Errorf("find the last lines: %w", err)
	}
	return nil
}

// logReader is the reading end of a copy under way. Close ends the copy and
// waits for it.
type logReader struct {
	*io.PipeReader
	cancel context.CancelFunc
	done   chan struct{}
}

func (r *logReader) Close() error {
	r.cancel()
	err := r.PipeReader.Close()
	<-r.done
	return err
}

func (l logs) stream(ctx context.Context, ref backend.ContainerRef, name string, f file, opts backend.LogOptions) io.ReadCloser {
	ctx, cancel := context.WithCancel(ctx)
	out, in := io.Pipe()
	r := &logReader{PipeReader: out, cancel: cancel, done: make(chan struct{})}
	unblock := context.AfterFunc(ctx, func() { in.CloseWithError(context.Cause(ctx)) })
	go func() {
		defer close(r.done)
		defer unblock()
		c := &logCopy{
			logs: l, ref: ref, name: name, follow: opts.Follow, lines: crilog.NewLines(f),
			out: crilog.NewWriter(in, crilog.Options{Timestamps: opts.Timestamps, Since: opts.Since, Limit: opts.LimitBytes}),
		}
		err := c.run(ctx)
		if errors.Is(err, crilog.ErrLimit) {
			err = nil
		}
		// Nil closes the reader with EOF.
		in.CloseWithError(errors.Join(err, f.Close()))
	}()
	return r
}

// logCopy copies one log file to a reader.
type logCopy struct {
	logs   logs
	ref    backend.ContainerRef
	name   string
	follow bool
	lines  *crilog.Lines
	out    *crilog.Writer
}

func (c *logCopy) run(ctx context.Context) error {
	if !c.follow {
		if err := c.drain(ctx); err != nil {
			return err
		}
		return c.rest(ctx)
	}
	w, err := c.logs.host.Watch(ctx, c.name)
	if err != nil {
		return fmt.Errorf("follow log: %w", err)
	}
	err = c.followWith(ctx, w)
	return errors.Join(err, w.Close())
}

// followWith copies until the container has ended and its log was read to the
// end after that.
func (c *logCopy) followWith(ctx context.Context, w watch) error {
	poll := time.NewTicker(followPoll)
	defer poll.Stop()
	for {
		if err := c.drain(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.Changed():
		case <-poll.C:
			ended, err := c.ended(ctx)
			if err != nil {
				return err
			}
			if ended {
				if err := c.drain(ctx); err != nil {
					return err
				}
				return c.rest(ctx)
			}
		}
	}
}

// drain copies what is there.
func (c *logCopy) drain(ctx context.Context) error {
	for {
		line, err := c.lines.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := c.copy(ctx, line); err != nil {
			return err
		}
	}
}

// rest copies a last line that a full disk or a crash left without its newline.
func (c *logCopy) rest(ctx context.Context) error {
	if rest := c.lines.Rest(); len(rest) > 0 {
		return c.copy(ctx, rest)
	}
	return nil
}

// copy leaves out what is no record, as the kubelet does.
func (c *logCopy) copy(ctx context.Context, line []byte) error {
	record, err := crilog.Parse(line)
	if err != nil {
		log.G(ctx).WithError(err).WithField("container", c.ref.Name).Debug("Skipped a malformed line of a container's log")
		return nil
	}
	return c.out.Write(record)
}

// ended is true when the container writes no more. A runtime that cannot be
// asked now says nothing about it.
func (c *logCopy) ended(ctx context.Context) (bool, error) {
	if _, err := c.logs.transport.current(); err != nil {
		return false, failed(err, "follow log")
	}
	if c.ref.ID == "" {
		found, err := c.logs.findContainer(ctx, c.ref.Pod.UID, c.ref.Name, c.ref.Attempt)
		if err != nil {
			return errors.Is(err, backend.ErrNotFound), nil
		}
		c.ref.ID = found.GetId()
	}
	s, err := c.logs.askContainer(ctx, c.ref.ID)
	if err != nil {
		log.G(ctx).WithError(err).WithField("container", c.ref.Name).Debug("Failed to ask for the state of a followed container")
		return false, nil
	}
	return s == nil || s.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED, nil
}
