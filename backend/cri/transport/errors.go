package transport

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/burstlet/burstlet/backend"
)

// CallError is a failed call: the runtime's own words without gRPC's wrapping.
type CallError struct {
	code codes.Code
	msg  string
	err  error
}

func (e *CallError) Error() string { return e.msg }
func (e *CallError) Unwrap() error { return e.err }

// GRPCStatus lets status.Code find the code through any wrapping.
func (e *CallError) GRPCStatus() *status.Status { return status.New(e.code, e.msg) }

// classes maps gRPC codes to the contract's classes. Codes that are not here
// are transient: containerd answers Unknown for most of what can go wrong.
var classes = map[codes.Code]error{
	codes.NotFound:         backend.ErrNotFound,
	codes.AlreadyExists:    backend.ErrExists,
	codes.InvalidArgument:  backend.ErrInvalid,
	codes.Unimplemented:    backend.ErrUnsupported,
	codes.Unavailable:      backend.ErrUnavailable,
	codes.DeadlineExceeded: backend.ErrUnavailable,
	codes.Canceled:         backend.ErrUnavailable,
	codes.Unauthenticated:  backend.ErrDenied,
	codes.PermissionDenied: backend.ErrDenied,
}

// Failed adds context to the error of a call and gives it its class.
func Failed(err error, format string, args ...any) error {
	return Classed(err, fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err))
}

// Classed gives what an error of the runtime was wrapped in its class.
func Classed(err, wrapped error) error {
	if errors.Is(err, backend.ErrDenied) {
		return wrapped // the way to the host says so, whatever gRPC makes of it
	}
	if class, ok := classes[status.Code(err)]; ok {
		return backend.Classed(class, wrapped)
	}
	return wrapped
}

// Lost is true when the call may have had an effect that nobody reported.
func Lost(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return true
	default:
		return false
	}
}

// IsNotFound is true where the runtime does not have what a call names.
func IsNotFound(err error) bool { return status.Code(err) == codes.NotFound }
