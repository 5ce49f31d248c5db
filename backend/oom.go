package backend

import "context"

// SystemOOMs tells of processes that the kernel of the pods' host killed because the host
// itself had no memory left, whoever's they were (kubelet: oom.Watcher). What is killed at
// the limit of a container or pod is a fact of that container. It is nil where pods share
// no host.
type SystemOOMs interface {
	// Await returns the kills after a mark, in their order, as soon as there is one. The
	// empty mark is that of who knows none: it returns at once, no kill and the mark of now.
	// Errors: Unsupported where the host does not tell.
	Await(ctx context.Context, after string) (OOMKills, error)
}

// OOMKills are processes that were killed.
type OOMKills struct {
	Kills []OOMKill
	// Mark is what to await the next ones after. It is the remote's own, and holds after the
	// way to it was cut, or it was started anew.
	Mark string
}

// OOMKill is a process that was killed.
type OOMKill struct {
	// Process is its name, as the kernel has it.
	Process string
	PID     int
}
