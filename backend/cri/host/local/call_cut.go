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

// cutFields cuts the fields of a message that have a length to their first bytes. It is
// for messages whose fields of that kind are text: a cut message in them is none.
func cutFields(message []byte, most int) ([]byte, error) {
	out := make([]byte, 0, min(len(message), 2*most))
	for rest := message; len(rest) > 0; {
		tag, n := binary.Uvarint(rest)
		if n <= 0 {
			return nil, errNoMessage
		}
		size := 0
		switch tag & 7 {
		case wireVarint:
			if _, size = binary.Uvarint(rest[n:]); size <= 0 {
				return nil, errNoMessage
			}
		case wireFixed64:
			size = 8
		case wireFixed32:
			size = 4
		case wireBytes:
			length, prefix := binary.Uvarint(rest[n:])
			if prefix <= 0 || length > uint64(len(rest)-n-prefix) {
				return nil, errNoMessage
			}
			value := rest[n+prefix:][:length]
			out = append(out, rest[:n]...)
			out = binary.AppendUvarint(out, uint64(min(len(value), most)))
			out = append(out, value[:min(len(value), most)]...)
			rest = rest[n+prefix+len(value):]
			continue
		default:
			return nil, errNoMessage
		}
		if size > len(rest)-n {
			return nil, errNoMessage
		}
		out = append(out, rest[:n+size]...)
		rest = rest[n+size:]
	}
	return out, nil
}
