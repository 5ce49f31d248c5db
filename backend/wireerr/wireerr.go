// Package wireerr carries errors over a connection: [New] makes of an error what can be
// sent, and [Error.Err] an error again, of which errors.Is and errors.As say the same. It
// serves the helper on a host and the sim's socket, so it knows neither Kubernetes'
// libraries nor package backend, of which only the classes of errors are needed.
package wireerr

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/class"
)

// MaxText bounds the text of an error in bytes.
const MaxText = 64 << 10

// Error is an error on its way: its text, and all that errors.Is may be asked
// for. Kernel errors go by name, for their numbers differ between systems.
type Error struct {
	Text   string   `json:"text"`
	Is     []string `json:"is,omitempty"`
	Errnos []string `json:"errnos,omitempty"`
	// Timeout is true of a net.Error that is one.
	Timeout bool `json:"timeout,omitempty"`
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

// New is nil for nil.
func New(err error) *Error {
	if err == nil {
		return nil
	}
	text := err.Error()
	w := &Error{Text: strings.ToValidUTF8(text[:min(len(text), MaxText)], "\uFFFD")}
	for _, s := range sentinels() {
		if errors.Is(err, s.err) {
			w.Is = append(w.Is, s.name)
		}
	}
	w.Errnos = errnoNames(err, nil)
	var timeout net.Error
	w.Timeout = errors.As(err, &timeout) && timeout.Timeout()
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

// Err is the error again, with the same text; nil for nil. Errors that were carried
// beside it are among those that it wraps.
func (w *Error) Err(also ...error) error {
	if w == nil {
		return nil
	}
	out := &remoteError{text: w.Text, causes: also}
	for _, s := range sentinels() {
		for _, name := range w.Is {
			if name == s.name {
				out.causes = append(out.causes, s.err)
			}
		}
	}
	for _, name := range w.Errnos {
		if errno, ok := errnoNamed(name); ok {
			out.causes = append(out.causes, errno)
		}
	}
	if w.Timeout {
		return timeoutError{out}
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

// remoteError is an error as it was at the other side.
type remoteError struct {
	text   string
	causes []error
}

func (e *remoteError) Error() string   { return e.text }
func (e *remoteError) Unwrap() []error { return e.causes }

// timeoutError is a remoteError that is a net.Error.
type timeoutError struct{ *remoteError }

var _ net.Error = timeoutError{}

// Timeout is true.
func (timeoutError) Timeout() bool { return true }

// Temporary is part of net.Error and without meaning (net: deprecated).
func (timeoutError) Temporary() bool { return false }
