package cri

import (
	"context"
	"fmt"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// shutdown implements [backend.Shutdown].
type shutdown struct{ *remote }

// Await has the host hold a lock of systemd-logind's while it waits.
func (s shutdown) Await(ctx context.Context, was bool) (bool, error) {
	is, err := s.host.AwaitShutdown(ctx, host.ShutdownRequest{Was: was, Delay: s.cfg.ShutdownDelay})
	if err != nil {
		return was, fmt.Errorf("await the host's shutdown (backend.cri.shutdownGracePeriod): %w", err)
	}
	return is, nil
}
