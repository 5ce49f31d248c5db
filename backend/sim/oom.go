package sim

import (
	"context"
	"strconv"

	"github.com/burstlet/burstlet/backend"
)

// hostOOMs are the processes that the simulated host killed for want of its memory.
type hostOOMs struct {
	kills []backend.OOMKill
	// more is closed and replaced with each kill.
	more chan struct{}
}

// KillForMemory has the host's kernel kill a process, of no pod, because the host has no
// memory left.
func (r *Remote) KillForMemory(process string, pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ooms.kills = append(r.ooms.kills, backend.OOMKill{Process: process, PID: pid})
	close(r.ooms.more)
	r.ooms.more = make(chan struct{})
}

// oomsView lends backend.SystemOOMs. Its marks count kills.
type oomsView struct{ *view }

// Await implements [backend.SystemOOMs].
func (v oomsView) Await(ctx context.Context, after string) (backend.OOMKills, error) {
	const op = "await OOM kills of the host"
	if err := v.request(ctx, op); err != nil {
		return backend.OOMKills{}, err
	}
	known := -1
	if after != "" {
		n, err := strconv.Atoi(after)
		if err != nil || n < 0 {
			return backend.OOMKills{}, backend.Errorf(backend.ErrInvalid, "%s: no mark: %q", op, after)
		}
		known = n
	}
	for {
		v.mu.Lock()
		state := v.ooms
		v.mu.Unlock()
		now := backend.OOMKills{Mark: strconv.Itoa(len(state.kills))}
		if known >= 0 && known < len(state.kills) {
			now.Kills = append(now.Kills, state.kills[known:]...)
		}
		if known < 0 || len(now.Kills) > 0 {
			if err := v.reply(ctx, op); err != nil {
				return backend.OOMKills{}, err
			}
			return now, nil
		}
		select {
		case <-ctx.Done():
			return backend.OOMKills{}, backend.Errorf(backend.ErrUnavailable, "%s: %w", op, ctx.Err())
		case <-state.more:
		}
	}
}
