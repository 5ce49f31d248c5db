package intask

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The agent of ECS Exec holds back or changes bytes that are not UTF-8
// (amazon-ssm-agent, agent/session/shell/shell.go, processStdoutData), so bytes are
// carried as lines of base64. A line and its end fit into one frame of the agent's.
const (
	lineRoom = 765
	lineSize = 1021
)

// NewLineWriter writes bytes as lines to w. Each Write is whole lines.
func NewLineWriter(w io.Writer) io.Writer { return &lineWriter{w: w} }

type lineWriter struct {
	w   io.Writer
	buf []byte
}

// Write writes as many lines as it takes, in one call.
func (l *lineWriter) Write(p []byte) (int, error) {
	l.buf = l.buf[:0]
	for rest := p; len(rest) > 0; {
		n := min(len(rest), lineRoom)
		l.buf = append(base64.StdEncoding.AppendEncode(l.buf, rest[:n]), '\n')
		rest = rest[n:]
	}
	if _, err := l.w.Write(l.buf); err != nil {
		return 0, err
	}
	return len(p), nil
}

// NewLineReader reads what a line writer wrote.
func NewLineReader(r io.Reader) io.Reader {
	return &lineReader{lines: bufio.NewReaderSize(r, 4*lineSize)}
}

type lineReader struct {
	lines *bufio.Reader
	// decoded is what is left of the last line.
	decoded, buf []byte
}

// Read reads from one line.
func (l *lineReader) Read(p []byte) (int, error) {
	for len(l.decoded) == 0 {
		line, err := l.lines.ReadSlice('\n')
		if err != nil {
			return 0, lineError(line, err)
		}
		text := strings.TrimRight(string(line), "\r\n")
		if l.buf, err = base64.StdEncoding.AppendDecode(l.buf[:0], []byte(text)); err != nil {
			return 0, fmt.Errorf("a line of %d bytes is no base64: %w", len(text), err)
		}
		l.decoded = l.buf
	}
	n := copy(p, l.decoded)
	l.decoded = l.decoded[n:]
	return n, nil
}

// lineError tells a line that is cut off from the end.
func lineError(line []byte, err error) error {
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return errors.New("a line is too long")
	case errors.Is(err, io.EOF) && len(line) > 0:
		return io.ErrUnexpectedEOF
	}
	return err
}
