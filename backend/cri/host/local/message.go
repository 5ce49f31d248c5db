package local

import (
	"encoding/binary"
	"errors"
)

// Wire types of an encoded message (protobuf.dev, "Encoding").
const (
	wireVarint, wireFixed64, wireBytes, wireFixed32 = 0, 1, 2, 5
)

var errNoMessage = errors.New("the reply is not an encoded message")

// field is one field of an encoded message: a number or bytes.
type field struct {
	// key is the encoded key: the tag with the wire type.
	key       []byte
	tag, wire uint64
	number    uint64
	bytes     []byte
}

// nextField takes the first field off a message.
func nextField(message []byte) (f field, rest []byte, err error) {
	key, n := binary.Uvarint(message)
	if n <= 0 {
		return f, nil, errNoMessage
	}
	f.key, rest = message[:n], message[n:]
	f.tag, f.wire = key>>3, key&7
	var size int
	switch f.wire {
	case wireVarint:
		if f.number, size = binary.Uvarint(rest); size <= 0 {
			return f, nil, errNoMessage
		}
	case wireFixed64:
		size = 8
	case wireFixed32:
		size = 4
	case wireBytes:
		length, prefix := binary.Uvarint(rest)
		if prefix <= 0 || length > uint64(len(rest)-prefix) {
			return f, nil, errNoMessage
		}
		size = prefix + int(length)
		f.bytes = rest[prefix:size]
	default:
		return f, nil, errNoMessage
	}
	if size > len(rest) {
		return f, nil, errNoMessage
	}
	return f, rest[size:], nil
}

func eachField(message []byte, do func(field) error) error {
	for len(message) > 0 {
		f, rest, err := nextField(message)
		if err == nil {
			err = do(f)
		}
		if err != nil {
			return err
		}
		message = rest
	}
	return nil
}
