package backend

import "context"

// Shutdown tells when the pods' host is about to be shut down, and delays that until its
// pods have ended (kubelet: nodeshutdown). It is nil where pods share no host, or where
// they have no time to end.
type Shutdown interface {
	// Await returns once the host's state is not was: whether it is being shut down. With
	// was false it delays shutdowns while it waits, and after it returned true until the
	// next call: with was true it lets the host go on, and waits until the shutdown is
	// called off or the host is up again. A delay ends with the way to the host too.
	// Errors: Unsupported where the host does not tell.
	Await(ctx context.Context, was bool) (is bool, err error)
}
