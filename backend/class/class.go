// Package class holds the classes of errors that package backend gives to
// backends and the engine. They stand apart from it, and it repeats them under its
// own names, so that the helper on a host knows them without Kubernetes' libraries.
package class

import (
	"errors"
	"fmt"
	"slices"
)

// The classes: see package backend, which says what the engine does about each.
var (
	ErrNotFound    = errors.New("not found")
	ErrExists      = errors.New("already exists")
	ErrInvalid     = errors.New("invalid")
	ErrUnsupported = errors.New("unsupported")
	ErrCapacity    = errors.New("no capacity")
	ErrThrottled   = errors.New("throttled")
	ErrUnavailable = errors.New("unavailable")
	ErrDenied      = errors.New("denied")
	ErrSuperseded  = errors.New("superseded")
)

// Named is a class with its name.
type Named struct {
	Err  error
	Name string
}

var all = []Named{
	{ErrNotFound, "NotFound"},
	{ErrExists, "Exists"},
	{ErrInvalid, "Invalid"},
	{ErrUnsupported, "Unsupported"},
	{ErrCapacity, "Capacity"},
	{ErrThrottled, "Throttled"},
	{ErrUnavailable, "Unavailable"},
	{ErrDenied, "Denied"},
	{ErrSuperseded, "Superseded"},
}

// All lists the classes; where an error has several, the first is its class.
func All() []Named { return slices.Clone(all) }

// Of is the name of an error's class, "" for nil and "Transient" for none.
func Of(err error) string {
	if err == nil {
		return ""
	}
	for _, c := range all {
		if errors.Is(err, c.Err) {
			return c.Name
		}
	}
	return "Transient"
}

// Give gives err a class: errors.Is finds both, and the text is err's own.
func Give(class, err error) error {
	if err == nil || errors.Is(err, class) {
		return err
	}
	return &classed{class: class, err: err}
}

// Errorf is fmt.Errorf with a class.
func Errorf(class error, format string, args ...any) error {
	return Give(class, fmt.Errorf(format, args...))
}

type classed struct{ class, err error }

func (e *classed) Error() string   { return e.err.Error() }
func (e *classed) Unwrap() []error { return []error{e.err, e.class} }
