package gate

import (
	"context"

	"github.com/burstlet/burstlet/backend"
)

type resizer struct {
	backend.Resizer
	gate *Gate
}

func (r resizer) Resize(ctx context.Context, ref backend.ContainerRef, spec backend.ContainerSpec) error {
	if err := r.gate.pass("resize container"); err != nil {
		return err
	}
	return r.Resizer.Resize(ctx, ref, spec)
}
