package helper

import (
	"errors"

	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/wireerr"
)

// wireError is an error on its way.
type wireError struct {
	wireerr.Error
	// Call is the runtime's answer, if it was one.
	Call *host.CallError `json:"call,omitempty"`
}

// toWire is nil for nil.
func toWire(err error) *wireError {
	if err == nil {
		return nil
	}
	w := &wireError{Error: *wireerr.New(err)}
	if answer, ok := errors.AsType[*host.CallError](err); ok {
		w.Call = answer
	}
	return w
}

// error is nil for nil.
func (w *wireError) error() error {
	switch {
	case w == nil:
		return nil
	case w.Call != nil:
		return w.Err(w.Call)
	default:
		return w.Err()
	}
}
