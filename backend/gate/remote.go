package gate

import (
	"context"
	"errors"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// Ask lets the remote have a say in the term: confirm is [backend.Backend]'s Confirm.
func (g *Gate) Ask(confirm func(context.Context) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.confirm = confirm
}

// Asks is true where the remote has a say.
func (g *Gate) Asks() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.confirm != nil
}

// Outlives is true of a term that the remote has confirmed once: it need not end with its
// lease, for another leader would show there.
func (g *Gate) Outlives() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.confirmed && !g.superseded
}

// Superseded is true once the remote has named another leader. The gate is closed then.
func (g *Gate) Superseded() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.superseded
}

// Confirm asks the remote for the term. If it confirms, it may be changed for so long
// after the asking, whatever becomes of the lease. Errors: as backend.Backend's Confirm.
func (g *Gate) Confirm(ctx context.Context, lasts time.Duration) error {
	g.mu.Lock()
	confirm := g.confirm
	g.mu.Unlock()
	if confirm == nil {
		return backend.Errorf(backend.ErrUnsupported, "the remote does not tell leaders apart")
	}
	asked := time.Now()
	err := confirm(ctx)
	if err != nil {
		g.heed(err)
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.confirmed = true
	if until := asked.Add(lasts); until.After(g.remote) {
		g.remote = until
	}
	return nil
}

// heed closes the gate for ever when the remote names another leader.
func (g *Gate) heed(err error) {
	if !errors.Is(err, backend.ErrSuperseded) {
		return
	}
	g.mu.Lock()
	g.superseded = true
	g.mu.Unlock()
	g.Close()
}
