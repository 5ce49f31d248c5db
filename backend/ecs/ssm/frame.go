package ssm

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Message types (session-manager-plugin, src/message/clientmessage.go).
const (
	typeInput   = "input_stream_data"
	typeOutput  = "output_stream_data"
	typeAck     = "acknowledge"
	typeClosed  = "channel_closed"
	typeStart   = "start_publication"
	typePause   = "pause_publication"
	maxTypeName = 32
)

// payloadType says what is in a frame of a stream.
type payloadType uint32

// Payload types (session-manager-plugin, src/message/clientmessage.go).
const (
	payloadOutput            payloadType = 1
	payloadSize              payloadType = 3
	payloadHandshakeRequest  payloadType = 5
	payloadHandshakeResponse payloadType = 6
	payloadHandshakeComplete payloadType = 7
	payloadFlag              payloadType = 10
)

// flagTerminate is the content of a payloadFlag frame that ends the session.
const flagTerminate uint32 = 2

// Offsets of a frame's fields; all integers are big-endian.
const (
	offType     = 4
	offVersion  = offType + maxTypeName
	offCreated  = offVersion + 4
	offSequence = offCreated + 8
	offFlags    = offSequence + 8
	offID       = offFlags + 8
	offDigest   = offID + 16
	offPayload  = offDigest + sha256.Size
	// headerLength is up to the length of the payload, which stands behind it.
	headerLength = offPayload + 4
	overhead     = headerLength + 4

	schemaVersion = 1
	// maxFrame bounds what is read at once: the agent sends at most 1024 bytes of
	// output, the service a few lines of text.
	maxFrame = 32 << 10
)

// messageID identifies a frame.
type messageID [16]byte

func newMessageID() (id messageID) {
	_, _ = rand.Read(id[:]) // never fails: crypto/rand
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

// String is the usual text of a UUID.
func (id messageID) String() string {
	h := hex.EncodeToString(id[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// frame is one message of the data channel.
type frame struct {
	kind     string
	created  time.Time
	sequence int64
	flags    uint64
	id       messageID
	what     payloadType
	payload  []byte
}

// encode makes the bytes of a frame.
func (f frame) encode() []byte {
	b := make([]byte, overhead+len(f.payload))
	binary.BigEndian.PutUint32(b, headerLength)
	copy(b[offType:offVersion], f.kind+strings.Repeat(" ", maxTypeName))
	binary.BigEndian.PutUint32(b[offVersion:], schemaVersion)
	binary.BigEndian.PutUint64(b[offCreated:], uint64(f.created.UnixMilli())) //nolint:gosec // after 1970
	binary.BigEndian.PutUint64(b[offSequence:], uint64(f.sequence))           //nolint:gosec // the same bits
	binary.BigEndian.PutUint64(b[offFlags:], f.flags)
	// The lower half of the UUID stands first.
	copy(b[offID:], f.id[8:])
	copy(b[offID+8:], f.id[:8])
	digest := sha256.Sum256(f.payload)
	copy(b[offDigest:], digest[:])
	binary.BigEndian.PutUint32(b[offPayload:], uint32(f.what))
	binary.BigEndian.PutUint32(b[headerLength:], uint32(len(f.payload))) //nolint:gosec // our own, small
	copy(b[overhead:], f.payload)
	return b
}

var errTruncated = errors.New("a frame is cut off")

// decode reads a frame. The payload shares memory with b.
func decode(b []byte) (frame, error) {
	if len(b) < overhead {
		return frame{}, errTruncated
	}
	header := binary.BigEndian.Uint32(b)
	if header < headerLength || int64(header) > int64(len(b)-4) {
		return frame{}, fmt.Errorf("a frame of %d bytes has a header of %d", len(b), header)
	}
	f := frame{
		kind:     strings.TrimSpace(string(bytes.Trim(b[offType:offVersion], "\x00"))),
		created:  time.UnixMilli(int64(binary.BigEndian.Uint64(b[offCreated:]))), //nolint:gosec // a time of any kind
		sequence: int64(binary.BigEndian.Uint64(b[offSequence:])),                //nolint:gosec // the same bits
		flags:    binary.BigEndian.Uint64(b[offFlags:]),
		what:     payloadType(binary.BigEndian.Uint32(b[offPayload:])),
	}
	copy(f.id[8:], b[offID:])
	copy(f.id[:8], b[offID+8:offDigest])
	size, rest := binary.BigEndian.Uint32(b[header:]), b[header+4:]
	if int64(size) > int64(len(rest)) {
		return frame{}, errTruncated
	}
	f.payload = rest[:size]
	if f.sequence < 0 {
		return frame{}, fmt.Errorf("a frame has the sequence number %d", f.sequence)
	}
	// Those that tell a sender to pause have no digest (session-manager-plugin,
	// ClientMessage.Validate).
	if digest := sha256.Sum256(f.payload); size > 0 && !bytes.Equal(digest[:], b[offDigest:offPayload]) {
		return frame{}, errors.New("the payload of a frame is not what its digest says")
	}
	return f, nil
}
