package sim

import (
	"context"

	"github.com/burstlet/burstlet/backend"
)

// hostShutdown is how far the simulated host is on its way down.
type hostShutdown struct {
	begun bool
	// delayed is true while somebody keeps the host from going on.
	delayed bool
	// changed is closed and replaced with each change of begun.
	changed chan struct{}
}

// ShutDown has the host begin to shut down, or calls that off. It goes no further.
func (r *Remote) ShutDown(begun bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shutdown.begun = begun
	close(r.shutdown.changed)
	r.shutdown.changed = make(chan struct{})
}

// ShutdownDelayed is true while somebody keeps the host from shutting down.
func (r *Remote) ShutdownDelayed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shutdown.delayed
}

// shutdownView lends backend.Shutdown.
type shutdownView struct{ *view }

// Await delays as systemd-logind does for who has an inhibitor lock.
func (v shutdownView) Await(ctx context.Context, was bool) (bool, error) {
	const op = "await the host's shutdown"
	if err := v.request(ctx, op); err != nil {
		return was, err
	}
	for {
		v.mu.Lock()
		state := v.shutdown
		v.shutdown.delayed = !was
		v.mu.Unlock()
		if state.begun != was {
			return state.begun, v.reply(ctx, op)
		}
		select {
		case <-ctx.Done():
			v.mu.Lock()
			v.shutdown.delayed = false
			v.mu.Unlock()
			return was, backend.Errorf(backend.ErrUnavailable, "%s: %w", op, ctx.Err())
		case <-state.changed:
		}
	}
}
