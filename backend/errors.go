package backend

import (
	"errors"
	"fmt"
)

// The classes of errors. A backend chooses the class where the error arises and
// wraps it with %w; the engine acts on the class alone. An error of no class is
// transient: retried with backoff, an Event each time.
var (
	// ErrNotFound: the thing is not there. From Remove it is proof of absence.
	ErrNotFound = errors.New("not found")
	// ErrExists: the thing is there already but is not the one asked for.
	ErrExists = errors.New("already exists")
	// ErrInvalid: this spec can never work. The pod fails.
	ErrInvalid = errors.New("invalid")
	// ErrUnsupported: the backend cannot do this. The pod is refused.
	ErrUnsupported = errors.New("unsupported")
	// ErrCapacity: no room now. The pod stays Pending, an Event, long backoff.
	ErrCapacity = errors.New("no capacity")
	// ErrThrottled: too many calls. Short backoff, no Event.
	ErrThrottled = errors.New("throttled")
	// ErrUnavailable: the transport is down or the reply was lost. Statuses are
	// frozen; nothing is concluded.
	ErrUnavailable = errors.New("unavailable")
	// ErrDenied: the remote refuses our credentials. A node condition.
	ErrDenied = errors.New("denied")
)

var classes = []struct {
	err  error
	name string
}{
	{ErrNotFound, "NotFound"},
	{ErrExists, "Exists"},
	{ErrInvalid, "Invalid"},
	{ErrUnsupported, "Unsupported"},
	{ErrCapacity, "Capacity"},
	{ErrThrottled, "Throttled"},
	{ErrUnavailable, "Unavailable"},
	{ErrDenied, "Denied"},
}

// Class is the name of an error's class, "" for nil and "Transient" for none.
func Class(err error) string {
	if err == nil {
		return ""
	}
	for _, c := range classes {
		if errors.Is(err, c.err) {
			return c.name
		}
	}
	return "Transient"
}

// Classed gives err a class: errors.Is finds both, and the text is err's own.
func Classed(class, err error) error {
	if err == nil || errors.Is(err, class) {
		return err
	}
	return &classed{class: class, err: err}
}

// Errorf is fmt.Errorf with a class.
func Errorf(class error, format string, args ...any) error {
	return Classed(class, fmt.Errorf(format, args...))
}

type classed struct{ class, err error }

func (e *classed) Error() string   { return e.err.Error() }
func (e *classed) Unwrap() []error { return []error{e.err, e.class} }
