package crilog

import (
	"bytes"
	"errors"
	"fmt"
	"time"
)

// Streams, as the runtime names them.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// ErrMalformed is wrapped by errors about a line that is not a record.
var ErrMalformed = errors.New("not a log record")

// Record is one line of a log file.
type Record struct {
	Time   time.Time
	Stream string
	// Partial is true when the line goes on in the stream's next record.
	Partial bool
	// Text is what the container wrote, without the line's end. It shares
	// memory with what was parsed.
	Text []byte
}

// Parse reads a line without its newline. Errors: ErrMalformed.
func Parse(line []byte) (Record, error) {
	stamp, rest, ok := bytes.Cut(line, []byte(" "))
	if !ok {
		return Record{}, fmt.Errorf("%w: no stream", ErrMalformed)
	}
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	stream, rest, ok := bytes.Cut(rest, []byte(" "))
	if !ok || (string(stream) != Stdout && string(stream) != Stderr) {
		return Record{}, fmt.Errorf("%w: stream %q", ErrMalformed, stream)
	}
	// An empty text may come without the space before it.
	tags, text, _ := bytes.Cut(rest, []byte(" "))
	first, _, _ := bytes.Cut(tags, []byte(":"))
	switch string(first) {
	case "P", "F":
	default:
		return Record{}, fmt.Errorf("%w: tag %q", ErrMalformed, first)
	}
	return Record{Time: at, Stream: string(stream), Partial: string(first) == "P", Text: text}, nil
}
