package local

import "encoding/binary"

// cutFields cuts the fields of a message that have a length to their first bytes. It is
// for messages whose fields of that kind are text: a cut message in them is none.
func cutFields(message []byte, most int) ([]byte, error) {
	out := make([]byte, 0, min(len(message), 2*most))
	for len(message) > 0 {
		f, rest, err := nextField(message)
		if err != nil {
			return nil, err
		}
		if f.wire == wireBytes {
			value := f.bytes[:min(len(f.bytes), most)]
			out = append(out, f.key...)
			out = binary.AppendUvarint(out, uint64(len(value)))
			out = append(out, value...)
		} else {
			out = append(out, message[:len(message)-len(rest)]...)
		}
		message = rest
	}
	return out, nil
}
