package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/crilog"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// logBuffer gathers short lines before a reader gets them.
const logBuffer = 64 << 10

// Log implements [host.Host].
func (h *Host) Log(ctx context.Context, r host.LogRequest) (io.ReadCloser, error) {
	// Links are resolved once, so that the directory that is watched is the file's.
	path, err := filepath.EvalSymlinks(r.Path)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	var watch *logWatch
	if r.Follow {
		watch = &h.logs
	}
	files, err := openLog(path, watch)
	if err != nil {
		return nil, err
	}
	if err := seekTail(files.current, r.Tail); err != nil {
		return nil, errors.Join(fmt.Errorf("open log %s: %w", path, err), files.Close())
	}
	return streamLog(ctx, files, r), nil
}

// openRegular opens a file for reading, and nothing that can block.
func openRegular(path string) (*os.File, os.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &os.PathError{Op: "open", Path: path, Err: errNotRegular}
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

var errNotRegular = errors.New("not a regular file")

func seekTail(f *os.File, tail *int64) error {
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

// logReader is the reading end of a copy under way. Close ends the copy and waits
// for it.
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

func streamLog(ctx context.Context, files *logFiles, r host.LogRequest) io.ReadCloser {
	ctx, cancel := context.WithCancel(ctx)
	out, in := io.Pipe()
	reader := &logReader{PipeReader: out, cancel: cancel, done: make(chan struct{})}
	unblock := context.AfterFunc(ctx, func() { in.CloseWithError(context.Cause(ctx)) })
	go func() {
		defer close(reader.done)
		defer unblock()
		buffer := bufio.NewWriterSize(in, logBuffer)
		c := &logCopy{
			files: files, follow: r.Follow, ended: r.Ended,
			lines: crilog.NewLines(files.current), buffer: buffer,
			out: crilog.NewWriter(buffer, crilog.Options{Timestamps: r.Timestamps, Since: r.Since, Limit: r.LimitBytes}),
		}
		err := c.run(ctx)
		if errors.Is(err, crilog.ErrLimit) {
			err = nil
		}
		if ctx.Err() == nil {
			err = errors.Join(err, buffer.Flush())
		}
		// Nil closes the reader with EOF.
		in.CloseWithError(errors.Join(err, files.Close()))
	}()
	return reader
}

// logCopy copies the files of one log to a reader.
type logCopy struct {
	files  *logFiles
	follow bool
	ended  <-chan struct{}
	lines  *crilog.Lines
	buffer *bufio.Writer
	out    *crilog.Writer
}

// run copies what is there and, when it follows, what comes until the container
// has ended.
func (c *logCopy) run(ctx context.Context) error {
	if !c.follow {
		return c.finish(ctx)
	}
	ended := false
	for {
		if err := c.drain(ctx); err != nil {
			return err
		}
		moved, err := c.advance(ctx)
		if err != nil {
			return err
		}
		if moved {
			continue
		}
		if err := c.flush(ended); err != nil || ended {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.files.changed:
		case <-c.ended:
			// What was written before is there now, perhaps in a new file whose
			// event has not come yet.
			ended = true
			c.files.look()
		}
	}
}

// flush hands on what was copied; at the end with a last line that a full disk or
// a crash left without its newline.
func (c *logCopy) flush(ended bool) error {
	if ended {
		if err := c.rest(); err != nil {
			return err
		}
	}
	return c.buffer.Flush()
}

// advance goes on with the file that followed by rotation. The runtime has opened
// it before it leaves the old one, which is therefore read once more: it is left
// once the new one has been written to.
func (c *logCopy) advance(ctx context.Context) (moved bool, err error) {
	if !c.files.hasNext() {
		return false, nil
	}
	if err := c.finish(ctx); err != nil {
		return false, err
	}
	if err := c.files.next(); err != nil {
		return false, err
	}
	c.lines = crilog.NewLines(c.files.current)
	return true, nil
}

// finish copies the rest of the current file.
func (c *logCopy) finish(ctx context.Context) error {
	if err := c.drain(ctx); err != nil {
		return err
	}
	return c.rest()
}

// drain copies the whole lines that are there.
func (c *logCopy) drain(ctx context.Context) error {
	for ctx.Err() == nil {
		line, err := c.lines.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := c.copy(line); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (c *logCopy) rest() error {
	if rest := c.lines.Rest(); len(rest) > 0 {
		return c.copy(rest)
	}
	return nil
}

// copy leaves out what is no record, as the kubelet does.
func (c *logCopy) copy(line []byte) error {
	record, err := crilog.Parse(line)
	if err != nil {
		return nil //nolint:nilerr // The line is damaged; those after it are not.
	}
	return c.out.Write(record)
}
