package podfiles

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Payload is the contents of a pod's volumes on their way into its task.
type Payload struct {
	Volumes []Volume `json:"volumes"`
	// Due, in seconds since 1970, is when there should be newer contents: a token of
	// theirs is to be replaced. 0 is never.
	Due int64 `json:"due,omitempty"`
	// Seq counts the writes of this pod's payload: of its secrets the one with the highest
	// counts.
	Seq int `json:"seq,omitempty"`
	// Wrote is when its secret was written in the last day, in seconds since 1970, and
	// Changed when that was not for a token: Secrets Manager counts versions.
	Wrote   []int64 `json:"wrote,omitempty"`
	Changed []int64 `json:"changed,omitempty"`
}

// Volume is one volume with files.
type Volume struct {
	// Name is the volume's, and that of its directory in VolumesDir.
	Name string `json:"name"`
	// Group gets the volume (fsGroup); nil leaves it root's.
	Group *int64 `json:"gid,omitempty"`
	Files []File `json:"files"`
}

// File is one file of a volume.
type File struct {
	// Path is relative, without "..".
	Path string `json:"path"`
	Data []byte `json:"data"`
	// Mode is the permission bits, before Group widens them.
	Mode int32 `json:"mode"`
	// UID owns the file; nil is root.
	UID *int64 `json:"uid,omitempty"`
}

// Dir is an empty volume that is not to stay root's with mode 0755, as ECS makes
// it.
type Dir struct {
	Name string `json:"name"`
	// Mode is the permission bits, the sticky and setgid bits among them, as chmod
	// takes them.
	Mode uint32 `json:"mode"`
	// Group gets the directory; nil leaves it root's.
	Group *int64 `json:"gid,omitempty"`
}

const (
	// PartSize is what one secret holds (Secrets Manager API, CreateSecret:
	// SecretString: 65,536 bytes).
	PartSize = 65536
	// MaxParts bounds a payload, and with it what a pod costs: its environment must
	// stay below what the kernel gives to a process (ARG_MAX: 2 MiB).
	MaxParts = 16
	// maxPlain bounds what a payload may unfold to: the API server takes 1 MiB for
	// one object, and a pod may use several.
	maxPlain = 64 << 20
	// maxHeader is the longest header of a part: "16/16:".
	maxHeader = 6
)

// ErrTooLarge is in the chain of an error about contents that do not fit.
var ErrTooLarge = errors.New("too large")

// Pack is the payload as bytes: the same for the same payload.
func (p Payload) Pack() ([]byte, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode payload: %w", err)
	}
	if len(text) > maxPlain {
		return nil, fmt.Errorf("encode payload: %d bytes: %w", len(text), ErrTooLarge)
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(text); err != nil {
		return nil, fmt.Errorf("compress payload: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("compress payload: %w", err)
	}
	return out.Bytes(), nil
}

// SameFiles is true for a payload with the same files that are due at the same time.
func (p Payload) SameFiles(o Payload) (bool, error) {
	a, err := Payload{Volumes: p.Volumes, Due: p.Due}.Pack()
	if err != nil {
		return false, err
	}
	b, err := Payload{Volumes: o.Volumes, Due: o.Due}.Pack()
	return bytes.Equal(a, b), err
}

// Unpack reads what Pack made. Its errors never hold contents.
func Unpack(packed []byte) (Payload, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return Payload{}, fmt.Errorf("uncompress payload: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(z, maxPlain+1))
	if err != nil {
		return Payload{}, fmt.Errorf("uncompress payload: %w", err)
	}
	if len(text) > maxPlain {
		return Payload{}, fmt.Errorf("uncompress payload: %w", ErrTooLarge)
	}
	var p Payload
	if err := json.Unmarshal(text, &p); err != nil {
		return Payload{}, errors.New("decode payload: it is no JSON of this version")
	}
	return p, nil
}

// Split makes texts of at most PartSize of packed contents, each headed by its
// number and their count.
func Split(packed []byte) ([]string, error) {
	n, err := Parts(len(packed))
	if err != nil {
		return nil, err
	}
	text := base64.StdEncoding.EncodeToString(packed)
	parts := make([]string, n)
	for i := range parts {
		end := min((i+1)*partRoom, len(text))
		parts[i] = strconv.Itoa(i+1) + "/" + strconv.Itoa(n) + ":" + text[i*partRoom:end]
	}
	return parts, nil
}

// partRoom is what a part holds beside its header.
const partRoom = PartSize - maxHeader

// Parts is how many texts Split makes of so many bytes.
func Parts(bytes int) (int, error) {
	n := max(1, (base64.StdEncoding.EncodedLen(bytes)+partRoom-1)/partRoom)
	if n > MaxParts {
		return 0, fmt.Errorf("%d bytes compressed, %d are taken: %w", bytes, MaxParts*partRoom*3/4, ErrTooLarge)
	}
	return n, nil
}

// Join is the reverse of Split; part(i) fetches the i-th text.
func Join(part func(i int) (string, error)) ([]byte, error) {
	var text strings.Builder
	for i, n := 0, 1; i < n; i++ {
		s, err := part(i)
		if err != nil {
			return nil, err
		}
		var rest string
		if n, rest, err = header(s, i); err != nil {
			return nil, err
		}
		text.WriteString(rest)
	}
	packed, err := base64.StdEncoding.DecodeString(text.String())
	if err != nil {
		return nil, errors.New("decode payload: it is no base64")
	}
	return packed, nil
}

// header takes "2/3:" from the i-th part, counted from 0, and returns the count.
func header(s string, i int) (n int, rest string, err error) {
	head, _, ok := strings.Cut(s[:min(len(s), maxHeader)], ":")
	number, count, both := strings.Cut(head, "/")
	if n, err = strconv.Atoi(count); err != nil || !ok || !both || n < 1 || n > MaxParts || number != strconv.Itoa(i+1) ||
		i >= n {
		return 0, "", fmt.Errorf("decode payload: part %d has no header of one", i+1)
	}
	return n, s[len(head)+1:], nil
}
