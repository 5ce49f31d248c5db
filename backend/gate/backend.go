package gate

import (
	"context"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/intercept"
)

// Wrap puts the gate before every call of b that may change something on the remote,
// and before every change that its Run makes. Reads, probes' and forwarded connections
// and logs pass.
func (g *Gate) Wrap(b backend.Backend) backend.Backend { return intercept.Wrap(b, g.around) }

func (g *Gate) around(ctx context.Context, c *intercept.Call, next func(context.Context) error) error {
	switch {
	case c.Reads:
	case c.Kind == intercept.Background:
		may := intercept.Arg[backend.Permit](c)
		*may = g.also(*may)
	default:
		if err := g.Permit(c.Does); err != nil {
			if c.Name == intercept.PodsLaunch {
				err = backend.Unmade(err)
			}
			return err
		}
	}
	err := next(ctx)
	g.heed(err)
	return err
}

// also permits what the gate and may both permit.
func (g *Gate) also(may backend.Permit) backend.Permit {
	return func(change string) error {
		if err := g.Permit(change); err != nil {
			return err
		}
		return may.Ask(change)
	}
}
