package backend

import (
	"errors"

	"github.com/burstlet/burstlet/backend/class"
)

// The classes of errors. A backend chooses the class where the error arises and
// wraps it with %w; the engine acts on the class alone. An error of no class is
// transient: retried with backoff, an Event each time.
var (
	// ErrNotFound: the thing is not there. From Remove it is proof of absence.
	ErrNotFound = class.ErrNotFound
	// ErrExists: the thing is there already but is not the one asked for.
	ErrExists = class.ErrExists
	// ErrInvalid: this spec can never work. The pod fails; one whose launch makes only
	// its sandbox stays Pending.
	ErrInvalid = class.ErrInvalid
	// ErrUnsupported: the backend cannot do this. The pod is refused.
	ErrUnsupported = class.ErrUnsupported
	// ErrCapacity: no room now. The pod stays Pending, an Event, long backoff.
	ErrCapacity = class.ErrCapacity
	// ErrThrottled: too many calls. Short backoff, no Event.
	ErrThrottled = class.ErrThrottled
	// ErrUnavailable: the transport is down or the reply was lost. Statuses are
	// frozen; nothing is concluded.
	ErrUnavailable = class.ErrUnavailable
	// ErrDenied: the remote refuses our credentials. A node condition.
	ErrDenied = class.ErrDenied
	// ErrSuperseded: the remote takes changes of a later leader of the node alone. Nothing
	// was made, and the term of this one ends.
	ErrSuperseded = class.ErrSuperseded
)

// Unmade marks an error of Pods.Launch after which it is certain, whatever its
// class, that this call made nothing. Text and class are err's own.
func Unmade(err error) error { return unmade{err} }

// IsUnmade is true for an error that Unmade marked.
func IsUnmade(err error) bool { return errors.As(err, new(unmade)) }

type unmade struct{ error }

func (u unmade) Unwrap() error { return u.error }

// OtherGrace marks an error of Pods.Stop after which the end was asked for as well as can
// be, but the containers have another grace than this one: the text says which, and why.
func OtherGrace(err error) error { return otherGrace{err} }

// IsOtherGrace is true for an error that OtherGrace marked.
func IsOtherGrace(err error) bool { return errors.As(err, new(otherGrace)) }

type otherGrace struct{ error }

func (o otherGrace) Unwrap() error { return o.error }

// NotStarted marks an error of Containers.Start after which it is certain that the
// container was made, could not be started, and has ended: facts show its end. Text and
// class are err's own.
func NotStarted(err error) error { return notStarted{err} }

// IsNotStarted is true for an error that NotStarted marked.
func IsNotStarted(err error) bool { return errors.As(err, new(notStarted)) }

type notStarted struct{ error }

func (n notStarted) Unwrap() error { return n.error }

// Class is the name of an error's class, "" for nil and "Transient" for none.
func Class(err error) string { return class.Of(err) }

// Classed gives err a class: errors.Is finds both, and the text is err's own.
func Classed(of, err error) error { return class.Give(of, err) }

// Errorf is fmt.Errorf with a class.
func Errorf(of error, format string, args ...any) error {
	return class.Errorf(of, format, args...)
}

// ContainerError is an error of Pods.Launch that keeps one container from being made,
// found before anything was: the others wait with it. Text and class are Err's.
type ContainerError struct {
	// Container is its name.
	Container string
	// Reason is the kubelet's word for it, shown as that of the waiting container
	// (ErrImagePull, CreateContainerConfigError).
	Reason string
	Err    error
}

// Error is the text of Err.
func (e *ContainerError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *ContainerError) Unwrap() error { return e.Err }
