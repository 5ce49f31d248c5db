package namespaces

import (
	"bytes"
	"io"
	"strings"
)

const (
	// reportPrefix begins a line of the log that is a report of the script.
	reportPrefix = "init:"
	// maxReport is more than the length of any report, in bytes.
	maxReport = 256
)

// reports passes a log on and reads what the script reports in it.
type reports struct {
	log    io.Writer
	handle func(fields []string)
	// line is the beginning of one whose end has not come yet.
	line []byte
}

// Write implements [io.Writer].
func (r *reports) Write(p []byte) (int, error) {
	n, err := r.log.Write(p)
	for line := range bytes.Lines(p) {
		r.line = append(r.line, line[:min(len(line), maxReport-len(r.line))]...)
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		if fields := strings.Fields(string(r.line)); len(fields) > 1 && fields[0] == reportPrefix {
			r.handle(fields[1:])
		}
		r.line = r.line[:0]
	}
	return n, err
}
