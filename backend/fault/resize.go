package fault

import (
	"context"

	"github.com/burstlet/burstlet/backend"
)

type resizer struct {
	inner  backend.Resizer
	script *Script
}

func (w resizer) Resize(ctx context.Context, ref backend.ContainerRef, spec backend.ContainerSpec) error {
	c := Call{Method: ResizeResize, UID: ref.Pod.UID, Container: ref.Name}
	return w.script.do(ctx, c, func() error { return w.inner.Resize(ctx, ref, spec) })
}
