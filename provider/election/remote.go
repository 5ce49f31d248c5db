package election

import (
	"context"
	"errors"
	"time"

	"github.com/containerd/log"

	"github.com/burstlet/burstlet/backend"
)

// askRemote asks the remote for this term until ctx ends: until it has confirmed it once,
// and again while the lease is not renewed. A remote that names another leader has closed
// the gate.
func (e *Elector) askRemote(ctx context.Context, l *lock) {
	tick := time.NewTicker(e.lease.RetryPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.held.Closed():
			return
		case <-tick.C:
		}
		// One renewal that is late is none that failed.
		if !l.held.Asks() || l.held.Outlives() && l.held.Left() > l.open-2*e.lease.RetryPeriod {
			continue
		}
		asking, cancel := context.WithTimeout(ctx, l.open/2)
		err := l.held.Confirm(asking, l.open)
		cancel()
		if errors.Is(err, backend.ErrSuperseded) {
			log.G(ctx).WithField("lease", l.Describe()).WithError(err).Warn("another process leads the node")
		}
	}
}
