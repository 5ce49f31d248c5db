package cri

import (
	"context"
	"fmt"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// maxOOMKills bounds what one reply tells of; the next one has the rest.
const maxOOMKills = 100

// systemOOMs implements [backend.SystemOOMs].
type systemOOMs struct{ *remote }

// Await has the host read its kernel's log.
func (s systemOOMs) Await(ctx context.Context, after string) (backend.OOMKills, error) {
	found, err := s.host.AwaitOOM(ctx, host.OOMRequest{After: after, MaxKills: maxOOMKills})
	if err != nil {
		return backend.OOMKills{}, fmt.Errorf("await OOM kills of the host: %w", err)
	}
	kills := backend.OOMKills{Mark: found.Mark}
	for _, k := range found.Kills {
		kills.Kills = append(kills.Kills, backend.OOMKill{Process: k.Process, PID: k.PID})
	}
	return kills, nil
}
