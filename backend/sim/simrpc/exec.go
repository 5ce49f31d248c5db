package simrpc

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/burstlet/burstlet/backend"
)

// Frames are what the connection of an Exec or Attach carries after its upgrade: a kind, a
// length of 4 bytes, big endian, and so many bytes. Standard input travels only
// as it is asked for, a frame for each frameWant: so the server always reads,
// and sees at once when the client has gone, and no input is taken from the
// caller that the command does not read. Forward has frames of its own (forward.go).
const (
	frameStdout   = byte('o') // server: what the command wrote
	frameStderr   = byte('e')
	frameWant     = byte('w') // server: the command reads its input
	frameDone     = byte('d') // server: a streamsResult; the last frame
	frameStdin    = byte('i') // client: a part of the input
	frameStdinEnd = byte('x') // client: the end of the input, or why it broke
	frameResize   = byte('r') // client: width and height, 2 bytes each; none is the end

	maxFrame = 32 << 10
	headSize = 5
)

// clip keeps a text within a frame, however JSON escapes it.
func clip(text string) string { return text[:min(len(text), maxFrame/8)] }

// streamsResult is how an Exec or Attach ended.
type streamsResult struct {
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

// sizeFrame is what a frameResize carries.
func sizeFrame(size backend.TerminalSize) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, size.Width), size.Height)
}

func readSizeFrame(data []byte) (size backend.TerminalSize, ok bool) {
	if len(data) != 4 {
		return size, false
	}
	return backend.TerminalSize{Width: binary.BigEndian.Uint16(data), Height: binary.BigEndian.Uint16(data[2:])}, true
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
