package crilog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	// block is how much is read at once.
	block = 64 << 10
	// maxLine bounds one record: containerd cuts lines at 16 KiB unless it is
	// told otherwise.
	maxLine = 16 << 20
)

// Lines cuts a file that may be growing into lines.
type Lines struct {
	r   io.Reader
	buf []byte // read and not returned
	off int    // of the first byte not returned
	// seen is where the search for the next newline goes on.
	seen int
}

// NewLines reads from r, whose end may come to lie further.
func NewLines(r io.Reader) *Lines { return &Lines{r: r} }

// Next returns the next line without its newline, valid until the next call. At
// the end of the file it returns [io.EOF] and may be called again when the file
// has grown; a line without newline is kept till then.
func (l *Lines) Next() ([]byte, error) {
	for {
		if i := bytes.IndexByte(l.buf[l.seen:], '\n'); i >= 0 {
			line := l.buf[l.off : l.seen+i]
			l.off = l.seen + i + 1
			l.seen = l.off
			return line, nil
		}
		l.seen = len(l.buf)
		if l.seen-l.off > maxLine {
			return nil, fmt.Errorf("%w: longer than %d bytes", ErrMalformed, maxLine)
		}
		if err := l.fill(); err != nil {
			return nil, err
		}
	}
}

// Rest is what follows the last newline.
func (l *Lines) Rest() []byte { return l.buf[l.off:] }

// fill reads at least one byte, or returns an error.
func (l *Lines) fill() error {
	if l.off > 0 {
		n := copy(l.buf, l.buf[l.off:])
		l.buf, l.seen, l.off = l.buf[:n], l.seen-l.off, 0
	}
	have := len(l.buf)
	if cap(l.buf)-have < block {
		grown := make([]byte, have, max(2*cap(l.buf), have+block))
		copy(grown, l.buf)
		l.buf = grown
	}
	n, err := l.r.Read(l.buf[have : have+block])
	l.buf = l.buf[:have+n]
	switch {
	case n > 0:
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return io.EOF
	default:
		return fmt.Errorf("read log: %w", err)
	}
}

// TailOffset is where the last n lines of a file of the given size begin, lines
// as the container wrote them: records that make up one line count once. It
// reads from the end as far as it has to.
func TailOffset(r io.ReaderAt, size, n int64) (int64, error) {
	if n <= 0 {
		return size, nil
	}
	var (
		ends  int64 // of lines seen, from the end
		after []byte
	)
	for end := size; end > 0; {
		start := max(0, end-block)
		// What stands before the first newline of a block belongs to a record
		// that begins in the block before it.
		buf := make([]byte, end-start, int(end-start)+len(after))
		if _, err := r.ReadAt(buf, start); err != nil && !errors.Is(err, io.EOF) {
			return 0, fmt.Errorf("read log from its end: %w", err)
		}
		buf = append(buf, after...)
		if len(buf) > maxLine {
			return 0, fmt.Errorf("%w: longer than %d bytes", ErrMalformed, maxLine)
		}
		limit := len(buf)
		for {
			i := bytes.LastIndexByte(trimEnd(buf[:limit]), '\n')
			if i < 0 {
				break
			}
			if endsLine(buf[i+1 : limit]) {
				if ends++; ends > n {
					return start + int64(limit), nil
				}
			}
			limit = i + 1
		}
		if start == 0 {
			if endsLine(buf[:limit]) && ends >= n {
				return int64(limit), nil
			}
			return 0, nil
		}
		after = buf[:limit:limit]
		end = start
	}
	return 0, nil
}

// trimEnd cuts the newline that ends the last line.
func trimEnd(b []byte) []byte { return bytes.TrimSuffix(b, []byte("\n")) }

// endsLine is true of a record that ends a line. What is no record counts, for
// it is on its own.
func endsLine(raw []byte) bool {
	if len(raw) == 0 {
		return false
	}
	record, err := Parse(trimEnd(raw))
	return err != nil || !record.Partial
}
