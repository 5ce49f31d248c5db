package simrpc

import (
	"errors"
	"net"
	"net/url"
	"syscall"

	"github.com/burstlet/burstlet/backend"
)

// wireError is an error as it travels: its class, its text, and what a caller
// of Dial may ask of a connection's error.
type wireError struct {
	Class   string
	Text    string
	Timeout bool          `json:",omitempty"`
	Errno   syscall.Errno `json:",omitempty"`
	// Container and Reason are a backend.ContainerError's.
	Container string `json:",omitempty"`
	Reason    string `json:",omitempty"`
}

func newWireError(err error) wireError {
	w := wireError{Class: backend.Class(err), Text: err.Error()}
	var timeout net.Error
	w.Timeout = errors.As(err, &timeout) && timeout.Timeout()
	_ = errors.As(err, &w.Errno) // 0 where there is none
	var ofContainer *backend.ContainerError
	if errors.As(err, &ofContainer) {
		w.Container, w.Reason = ofContainer.Container, ofContainer.Reason
	}
	return w
}

// header is class and text as a header's value.
func (w wireError) header() string {
	return url.Values{"class": {w.Class}, "text": {w.Text}}.Encode()
}

// readHeader reads what header wrote.
func readHeader(value string) (wireError, error) {
	values, err := url.ParseQuery(value)
	return wireError{Class: values.Get("class"), Text: values.Get("text")}, err
}

// err is the error again, of the same class and with the same text.
func (w wireError) err() error {
	var err error = &remoteError{w}
	if w.Container != "" {
		err = backend.Unmade(&backend.ContainerError{Container: w.Container, Reason: w.Reason, Err: err})
	}
	for _, class := range []error{
		backend.ErrNotFound, backend.ErrExists, backend.ErrInvalid, backend.ErrUnsupported,
		backend.ErrCapacity, backend.ErrThrottled, backend.ErrUnavailable, backend.ErrDenied,
	} {
		if backend.Class(class) == w.Class {
			return backend.Classed(class, err)
		}
	}
	return err
}

// remoteError is what the remote said. It is a net.Error and unwraps to the
// errno for errors.Is(err, syscall.ECONNREFUSED).
type remoteError struct{ wire wireError }

var _ net.Error = (*remoteError)(nil)

// Error is the remote's own text.
func (e *remoteError) Error() string { return e.wire.Text }

// Timeout is true where the remote's error was one.
func (e *remoteError) Timeout() bool { return e.wire.Timeout }

// Temporary is part of net.Error and without meaning (net: deprecated).
func (e *remoteError) Temporary() bool { return false }

// Unwrap gives the errno of a connection's error.
func (e *remoteError) Unwrap() error {
	if e.wire.Errno == 0 {
		return nil
	}
	return e.wire.Errno
}
