package helper

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/class"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// maxErrorText bounds the text of an error in bytes.
const maxErrorText = 64 << 10

// wireError is an error on its way: its text, and all that errors.Is may be asked
// for. Kernel errors go by name, for their numbers differ between systems.
type wireError struct {
	Text   string   `json:"text"`
	Is     []string `json:"is,omitempty"`
	Errnos []string `json:"errnos,omitempty"`
	// Call is the runtime's answer, if it was one.
	Call *host.CallError `json:"call,omitempty"`
}

type namedError struct {
	name string
	err  error
}

// sentinels are the errors that keep their identity, the classes first.
func sentinels() []namedError {
	var out []namedError
	for _, c := range class.All() {
		out = append(out, namedError{"class." + c.Name, c.Err})
	}
	return append(out,
		namedError{"fs.ErrNotExist", fs.ErrNotExist},
		namedError{"fs.ErrExist", fs.ErrExist},
		namedError{"fs.ErrPermission", fs.ErrPermission},
		namedError{"fs.ErrInvalid", fs.ErrInvalid},
		namedError{"fs.ErrClosed", fs.ErrClosed},
		namedError{"os.ErrDeadlineExceeded", os.ErrDeadlineExceeded},
		namedError{"context.Canceled", context.Canceled},
		namedError{"context.DeadlineExceeded", context.DeadlineExceeded},
		namedError{"errors.ErrUnsupported", errors.ErrUnsupported},
		namedError{"exec.ErrNotFound", exec.ErrNotFound},
		namedError{"io.ErrUnexpectedEOF", io.ErrUnexpectedEOF},
	)
}

// toWire is nil for nil.
func toWire(err error) *wireError {
	if err == nil {
		return nil
	}
	text := err.Error()
	w := &wireError{Text: strings.ToValidUTF8(text[:min(len(text), maxErrorText)], "\uFFFD")}
	for _, s := range sentinels() {
		if errors.Is(err, s.err) {
			w.Is = append(w.Is, s.name)
		}
	}
	w.Errnos = errnoNames(err, nil)
	if answer, ok := errors.AsType[*host.CallError](err); ok {
		w.Call = answer
	}
	return w
}

// errnoNames finds every kernel error in a tree of errors.
func errnoNames(err error, names []string) []string {
	if errno, ok := err.(syscall.Errno); ok { //nolint:errorlint // The tree is walked here.
		if name := unix.ErrnoName(errno); name != "" {
			names = append(names, name)
		}
	}
	switch wrapped := err.(type) { //nolint:errorlint // The tree is walked here.
	case interface{ Unwrap() error }:
		if inner := wrapped.Unwrap(); inner != nil {
			return errnoNames(inner, names)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range wrapped.Unwrap() {
			names = errnoNames(inner, names)
		}
	}
	return names
}

// error is nil for nil.
func (w *wireError) error() error {
	if w == nil {
		return nil
	}
	out := &remoteError{text: w.Text}
	for _, s := range sentinels() {
		for _, name := range w.Is {
			if name == s.name {
				out.causes = append(out.causes, s.err)
			}
		}
	}
	if w.Call != nil {
		out.causes = append(out.causes, w.Call)
	}
	for _, name := range w.Errnos {
		if errno, ok := errnoNamed(name); ok {
			out.causes = append(out.causes, errno)
		}
	}
	return out
}

func errnoNamed(name string) (syscall.Errno, bool) {
	// Larger than every number of Linux and the BSDs.
	const highest = 200
	for n := syscall.Errno(1); n < highest; n++ {
		if unix.ErrnoName(n) == name {
			return n, true
		}
	}
	return 0, false
}

// remoteError is an error as it was on the host.
type remoteError struct {
	text   string
	causes []error
}

func (e *remoteError) Error() string   { return e.text }
func (e *remoteError) Unwrap() []error { return e.causes }
