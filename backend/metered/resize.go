package metered

import (
	"context"

	"github.com/burstlet/burstlet/backend"
)

type resizer struct {
	inner   backend.Resizer
	metrics *Metrics
}

func (r resizer) Resize(ctx context.Context, ref backend.ContainerRef, spec backend.ContainerSpec) error {
	return act(ctx, r.metrics, resizeResize, func() error { return r.inner.Resize(ctx, ref, spec) })
}
