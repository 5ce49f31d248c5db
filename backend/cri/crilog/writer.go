package crilog

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// fixedNano is RFC 3339 with all nine digits, as the kubelet writes times.
const fixedNano = "2006-01-02T15:04:05.000000000Z07:00"

// ErrLimit is returned by a Writer that has written as much as it may.
var ErrLimit = errors.New("log limit reached")

// Options are what the kubelet's containerLogs lets a reader choose.
type Options struct {
	// Timestamps puts the time before each line.
	Timestamps bool
	// Since drops lines before this time; zero keeps all.
	Since time.Time
	// Limit ends the output after so many bytes; nil is no limit.
	Limit *int64
}

// Writer writes what the container wrote.
type Writer struct {
	w    io.Writer
	opts Options
	left int64
	// inside holds the streams in the middle of a line, and whether that line
	// is dropped.
	inside map[string]lineState
}

type lineState struct{ dropped bool }

// NewWriter writes to w.
func NewWriter(w io.Writer, opts Options) *Writer {
	out := &Writer{w: w, opts: opts, inside: map[string]lineState{}}
	if opts.Limit != nil {
		out.left = *opts.Limit
	}
	return out
}

// Write puts one record out. Errors: ErrLimit when the limit is reached.
func (w *Writer) Write(r Record) error {
	state, inside := w.inside[r.Stream]
	if !inside {
		state = lineState{dropped: r.Time.Before(w.opts.Since)}
	}
	if r.Partial {
		w.inside[r.Stream] = state
	} else {
		delete(w.inside, r.Stream)
	}
	if state.dropped {
		return nil
	}
	out := make([]byte, 0, len(fixedNano)+2+len(r.Text))
	if w.opts.Timestamps && !inside {
		out = append(r.Time.AppendFormat(out, fixedNano), ' ')
	}
	out = append(out, r.Text...)
	if !r.Partial {
		out = append(out, '\n')
	}
	return w.put(out)
}

func (w *Writer) put(out []byte) error {
	limited := w.opts.Limit != nil
	if limited && int64(len(out)) > w.left {
		out = out[:max(w.left, 0)]
	}
	if _, err := w.w.Write(out); err != nil {
		return fmt.Errorf("write log: %w", err)
	}
	if limited {
		if w.left -= int64(len(out)); w.left <= 0 {
			return ErrLimit
		}
	}
	return nil
}
