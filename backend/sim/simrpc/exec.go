package simrpc

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
)

// Frames are what an Exec's connection carries after its upgrade: a kind, a
// length of 4 bytes, big endian, and so many bytes. Standard input travels only
// as it is asked for, a frame for each frameWant: so the server always reads,
// and sees at once when the client has gone, and no input is taken from the
// caller that the command does not read.
const (
	frameStdout   = byte('o') // server: what the command wrote
	frameStderr   = byte('e')
	frameWant     = byte('w') // server: the command reads its input
	frameDone     = byte('d') // server: an execResult; the last frame
	frameStdin    = byte('i') // client: a part of the input
	frameStdinEnd = byte('x') // client: the end of the input, or why it broke

	maxFrame = 32 << 10
	headSize = 5
)

// clip keeps a text within a frame, however JSON escapes it.
func clip(text string) string { return text[:min(len(text), maxFrame/8)] }

// execResult is how an Exec ended.
type execResult struct {
	Code int32
	Err  *wireError `json:",omitempty"`
}

// frames writes whole frames from any goroutine; one goroutine reads.
type frames struct {
	conn net.Conn
	in   io.Reader

	mu sync.Mutex // around writes
}

func (f *frames) write(kind byte, data []byte) error {
	head := make([]byte, headSize, headSize+len(data))
	head[0] = kind
	binary.BigEndian.PutUint32(head[1:], uint32(len(data)))
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.conn.Write(append(head, data...))
	return err
}

func (f *frames) read() (kind byte, data []byte, err error) {
	var head [headSize]byte
	if _, err := io.ReadFull(f.in, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size > maxFrame {
		return 0, nil, fmt.Errorf("a frame of %d bytes", size)
	}
	data = make([]byte, size)
	if _, err := io.ReadFull(f.in, data); err != nil {
		return 0, nil, err
	}
	return head[0], data, nil
}

// output is one of the command's streams, as an io.Writer.
type output struct {
	frames *frames
	kind   byte
}

// Write sends all of p, in as many frames as it takes.
func (o output) Write(p []byte) (int, error) {
	sent := 0
	for sent < len(p) {
		part := p[sent:min(len(p), sent+maxFrame)]
		if err := o.frames.write(o.kind, part); err != nil {
			return sent, err
		}
		sent += len(part)
	}
	return sent, nil
}
