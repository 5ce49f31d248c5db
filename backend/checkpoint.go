package backend

import (
	"context"
	"time"
)

// Checkpointer writes the state of running containers, memory and all, to archives. It is
// nil where that cannot be.
type Checkpointer interface {
	// Checkpoint writes an archive of a running container, which goes on, on its host, and
	// returns its path there. It stays until somebody removes it. The runtime may take
	// timeout. Errors: NotFound for a container that does not run, Unsupported where the
	// remote turns out not to be able to.
	Checkpoint(ctx context.Context, ref ContainerRef, timeout time.Duration) (location string, err error)
}
