package ecsrun

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// logPipe reads what a container writes from a FIFO in place of its CRI log file:
// lines come as they are written, and its end is that of the log. Its methods may be
// called on nil.
type logPipe struct {
	reader *os.File
	// holder keeps the reader from seeing an end before the runtime has opened it.
	holder *os.File
	done   chan struct{}
	err    error // valid once done is closed
}

// openLogs makes the FIFO, before its container is made, and reads until it ends.
func openLogs(path string, log func(time.Time, string)) (*logPipe, error) {
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return nil, fmt.Errorf("make log pipe: %w", err)
	}
	holder, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open log pipe: %w", err)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open log pipe: %w", err), holder.Close())
	}
	p := &logPipe{reader: reader, holder: holder, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = p.read(log)
	}()
	return p, nil
}

// opened is called when the runtime has opened the FIFO, or will not.
func (p *logPipe) opened() error {
	if p == nil || p.holder == nil {
		return nil
	}
	holder := p.holder
	p.holder = nil
	return holder.Close()
}

func (p *logPipe) read(log func(time.Time, string)) error {
	lines := bufio.NewReader(p.reader)
	parts := map[string]*piece{}
	defer func() { // the last line may have no end
		for _, l := range parts {
			log(l.at, l.text)
		}
	}()
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) {
				err = nil
			}
			return errors.Join(err, ignoreClosed(p.reader.Close()))
		}
		l, err := parseLine(line)
		if err != nil {
			return errors.Join(err, ignoreClosed(p.reader.Close()))
		}
		whole := parts[l.stream]
		if whole == nil {
			whole = &piece{at: l.at}
			parts[l.stream] = whole
		}
		whole.text += l.text
		if !l.partial || len(whole.text) >= maxEvent {
			log(whole.at, whole.text)
			delete(parts, l.stream)
		}
	}
}

// maxEvent is when a line is handed over although it goes on (CloudWatch Logs quotas: the
// size of an event).
const maxEvent = 256 << 10

// piece is a line so far; stdout and stderr have one each.
type piece struct {
	at   time.Time
	text string
}

// logLine is a line of a log, or a piece of one.
type logLine struct {
	at           time.Time
	stream, text string
	partial      bool
}

func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// parseLine reads "2006-01-02T15:04:05.999999999Z stdout F text" (CRI's log format). Parts of
// a line that the runtime split, at 16 KiB, have P instead of F.
func parseLine(line []byte) (logLine, error) {
	parts := bytes.SplitN(bytes.TrimSuffix(line, []byte("\n")), []byte(" "), 4)
	if len(parts) != 4 {
		return logLine{}, errors.New("a line of a log is not in CRI's format")
	}
	at, err := time.Parse(time.RFC3339Nano, string(parts[0]))
	if err != nil {
		return logLine{}, fmt.Errorf("read time of a log line: %w", err)
	}
	return logLine{at: at, stream: string(parts[1]), text: string(parts[3]), partial: string(parts[2]) == "P"}, nil
}

// drained waits until all lines are read.
func (p *logPipe) drained(ctx context.Context) error {
	if p == nil {
		return nil
	}
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return errors.Join(ctx.Err(), p.close())
	}
}

// close ends the reading.
func (p *logPipe) close() error {
	if p == nil {
		return nil
	}
	err := ignoreClosed(p.reader.Close())
	<-p.done
	return err
}
