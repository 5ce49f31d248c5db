package streaming

import (
	"bufio"
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
)

// frameHead is the size of the head of every SPDY frame, whose last three bytes are
// the length of what follows.
const frameHead = 8

// link is the connection below SPDY.
//
// SPDY's library writes a frame in three parts, each of which would be a packet of
// its own on the way: the link sends whole frames. The library also waits half a
// minute for the answer to a new stream, even on a connection that has ended: when a
// link ends while streams are opened, it says that they are reset.
type link struct {
	net.Conn
	in    *bufio.Reader
	close func() error

	// frame is what was written of a frame; only the library's one writer has it.
	frame []byte

	opening atomic.Bool
	// streams is how many are opened; sent counts them, and allSent is closed when
	// the last has been.
	streams, sent int
	allSent       chan struct{}

	// tail is what is read after the end, and err what comes then; only the
	// library's one reader has them.
	tail []byte
	err  error
}

// newLink makes a link on which so many streams are to be opened.
func newLink(conn net.Conn, in *bufio.Reader, streams int) *link {
	l := &link{Conn: conn, in: in, close: sync.OnceValue(conn.Close), streams: streams, allSent: make(chan struct{})}
	l.opening.Store(true)
	return l
}

// Close ends the connection at once, whoever reads or writes. Again is fine.
func (l *link) Close() error { return l.close() }

// opened ends the time in which streams are opened.
func (l *link) opened() { l.opening.Store(false) }

// Read returns what the other side sent, and at the end resets of the streams that
// are being opened.
func (l *link) Read(p []byte) (int, error) {
	if l.err == nil {
		n, err := l.in.Read(p)
		if err == nil || n > 0 {
			return n, nil
		}
		l.err = err
		if l.opening.Load() {
			_ = l.Close() // frees who writes
			<-l.allSent   // so that there is someone to tell
			l.tail = resets(l.streams)
		}
	}
	if len(l.tail) == 0 {
		return 0, l.err
	}
	n := copy(p, l.tail)
	l.tail = l.tail[n:]
	return n, nil
}

// resets are frames that end the first streams of a client, which have the odd
// numbers.
func resets(streams int) []byte {
	var out []byte
	for i := range streams {
		out = append(out, 0x80, 3, 0, 3, 0, 0, 0, 8)            // RST_STREAM of 8 bytes
		out = binary.BigEndian.AppendUint32(out, uint32(2*i+1)) //nolint:gosec // a handful
		out = binary.BigEndian.AppendUint32(out, 5)             // CANCEL
	}
	return out
}

// Write sends a frame when it is whole.
func (l *link) Write(p []byte) (int, error) {
	l.frame = append(l.frame, p...)
	if len(l.frame) < frameHead {
		return len(p), nil
	}
	length := int(l.frame[5])<<16 | int(l.frame[6])<<8 | int(l.frame[7])
	if len(l.frame) < frameHead+length {
		return len(p), nil
	}
	opens := l.frame[0] == 0x80 && l.frame[3] == 1 // SYN_STREAM
	_, err := l.Conn.Write(l.frame)
	l.frame = l.frame[:0]
	if opens && l.opening.Load() {
		if err != nil {
			_ = l.Close() // told by Read, to all streams alike
		}
		l.sent++
		if l.sent == l.streams {
			close(l.allSent)
		}
		return len(p), nil
	}
	if err != nil {
		return 0, err //nolint:wrapcheck // it is the connection's
	}
	return len(p), nil
}
