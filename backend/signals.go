package backend

import (
	"context"
	"time"
)

// Signals says what the pods' host has left of what its pods share, for those who evict
// pods before it has nothing. It is nil where pods share no host.
type Signals interface {
	// Signals measures the host, and no single pod: it is asked every few seconds, so it
	// is to be cheap. Errors mean that nothing is known.
	Signals(ctx context.Context) (SignalFacts, error)
}

// SignalFacts is one measurement of a host. Nil is unknown: nobody is evicted for it.
type SignalFacts struct {
	// Time is when it was measured, in the caller's clock.
	Time time.Time
	// Memory is in bytes: what is left is the capacity without the working set.
	Memory *Level
	// PodsMemory is the working set of all pods together.
	PodsMemory *uint64
	// NodeFS holds volumes and logs, ImageFS images and the containers' layers; in bytes
	// and inodes.
	NodeFS, NodeFSInodes, ImageFS, ImageFSInodes *Level
	// DedicatedImageFS is true where the two are not one file system.
	DedicatedImageFS bool
	// PIDs are processes and threads.
	PIDs *Level
}

// Level is how much is left of how much there is.
type Level struct{ Available, Capacity uint64 }
