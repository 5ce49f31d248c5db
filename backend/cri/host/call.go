package host

import (
	"fmt"
	"time"
)

// Call is one unary call of the container runtime over gRPC.
type Call struct {
	// Socket is the path of the runtime's socket.
	Socket string
	// Method is gRPC's full name, such as "/runtime.v1.RuntimeService/StartContainer".
	Method string
	// Request is the encoded message. It may hold secrets: env values, logins.
	Request []byte
	// Timeout bounds the call from its arrival on the host; 0 is no bound.
	Timeout time.Duration
	// Owner names whose calls follow each other across processes, such as a pod's UID: a
	// call waits, for a minute at most, until the calls that another process makes for
	// the same owner have ended. Empty: it waits for none, and none for it.
	Owner string
	// Bound calls end with their caller instead, and have no Timeout.
	Bound bool
	// MaxField cuts strings and byte strings of the reply itself to that many bytes, on
	// the host, and takes a larger reply for it; 0 cuts nothing.
	MaxField int64
}

// CallError is the runtime's own answer to a [Call] that failed.
type CallError struct {
	// Code is gRPC's status code, and Message its text.
	Code    uint32
	Message string
}

func (e *CallError) Error() string {
	return fmt.Sprintf("the container runtime answered with code %d: %s", e.Code, e.Message)
}
