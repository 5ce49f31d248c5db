package helper

import (
	"bytes"
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"io"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/burstlet/burstlet/backend/cri/host"
)

const (
	// magic begins the line that each side writes first. No HTTP/2 frame and hardly
	// a shell's greeting has it.
	magic = "burstlet-hosthelper "
	// revision counts changes of the protocol that the types do not show.
	revision = 1
	// maxNoise bounds what may come before the greeting, and shownNoise what an
	// error tells of it.
	maxNoise, shownNoise = 64 << 10, 256
	maxGreeting          = 128
)

// errVersion is about another side that speaks another version.
var errVersion = errors.New("host helper of another version")

var (
	errNoHelper = errors.New("it does not speak the helper's protocol")
	// errEnded stands for io.EOF, which has another meaning to a reader of a log.
	errEnded = errors.New("the connection to the host's helper ended")
)

// version names what this side speaks: the revision, and a hash of the types that
// are carried, so that no change of them can be forgotten here.
func version() string {
	h := fnv.New64a()
	seen := map[reflect.Type]bool{}
	describe(h, reflect.TypeFor[logArgs](), seen)
	describe(h, reflect.TypeFor[host.SystemLogRequest](), seen)
	describe(h, reflect.TypeFor[host.Leader](), seen)
	all := operations()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		describeName(h, name)
		describe(h, all[name].args, seen)
		describe(h, all[name].result, seen)
	}
	return fmt.Sprintf("%d-%016x", revision, h.Sum64())
}

// describe writes the shape of a type, each named one once. It knows no methods:
// to ask for them would keep all of every type in the helper's binary.
func describe(w hash.Hash64, t reflect.Type, seen map[reflect.Type]bool) {
	describeName(w, t.String(), t.Kind().String())
	if seen[t] {
		return
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			return // Its form is its own.
		}
		for i := range t.NumField() {
			describeName(w, t.Field(i).Name)
			describe(w, t.Field(i).Type, seen)
		}
	case reflect.Pointer, reflect.Slice:
		describe(w, t.Elem(), seen)
	case reflect.Map:
		describe(w, t.Key(), seen)
		describe(w, t.Elem(), seen)
	default:
	}
}

// describeName writes to a hash, which takes everything.
func describeName(w hash.Hash64, names ...string) {
	for _, name := range names {
		_, _ = io.WriteString(w, name+" ")
	}
}

// greeting is the line of a side.
func greeting(version string) []byte { return []byte(magic + version + "\n") }

// readGreeting reads to the end of the other side's line, and returns what came
// after it. With noise, what comes before the line is passed over.
func readGreeting(r io.Reader, want string, noise int) (rest []byte, err error) {
	buf := make([]byte, 0, 4<<10)
	for {
		start := bytes.Index(buf, []byte(magic))
		if start >= 0 {
			if line, rest, ok := bytes.Cut(buf[start:], []byte("\n")); ok || len(line) > maxGreeting {
				return rest, checkGreeting(line, want)
			}
		}
		if start > noise || start < 0 && len(buf) > noise+len(magic) {
			return nil, notHelper(buf, nil)
		}
		if len(buf) == cap(buf) {
			buf = append(buf, make([]byte, cap(buf))...)[:len(buf)]
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err != nil && n == 0 {
			return nil, notHelper(buf, err)
		}
	}
}

func checkGreeting(line []byte, want string) error {
	if got := string(line[len(magic):min(len(line), maxGreeting)]); got != want {
		return fmt.Errorf("%w: it speaks %q, this side %q", errVersion, got, want)
	}
	return nil
}

// notHelper shows what the other side said, which is often the reason.
func notHelper(said []byte, err error) error {
	switch {
	case err == nil:
		err = errNoHelper
	case errors.Is(err, io.EOF):
		err = errEnded
	}
	if len(said) == 0 {
		return fmt.Errorf("start of the host helper: %w", err)
	}
	return fmt.Errorf("start of the host helper: %w; it said %q", err, said[:min(len(said), shownNoise)])
}
