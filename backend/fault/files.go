package fault

import (
	"context"
	"time"

	"github.com/burstlet/burstlet/backend"
)

type files struct {
	inner  backend.Files
	script *Script
	memory memory[backend.VolumeFacts]
}

func (w *files) Place(ctx context.Context, spec backend.VolumeSpec) error {
	c := Call{Method: FilesPlace, Volume: spec.Name}
	if spec.Pod != nil {
		c.UID = spec.Pod.UID
	}
	return w.script.making(ctx, c, func(ctx context.Context) error { return w.inner.Place(ctx, spec) })
}

func (w *files) Clear(ctx context.Context, ref backend.Ref) error {
	c := Call{Method: FilesClear, UID: ref.UID}
	return w.script.do(ctx, c, func() error { return w.inner.Clear(ctx, ref) })
}

func (w *files) Volumes(ctx context.Context) ([]backend.VolumeFacts, error) {
	facts, err := read(ctx, w.script, Call{Method: FilesVolumes}, w.memory.old, func() ([]backend.VolumeFacts, error) {
		from := time.Now()
		facts, err := w.inner.Volumes(ctx)
		if err == nil {
			w.memory.keep(facts, from)
		}
		return facts, err
	})
	for i := range facts {
		facts[i].PlacedAt = w.script.skewed(facts[i].PlacedAt)
	}
	return facts, err
}

type refresher struct {
	inner  backend.Refresher
	script *Script
}

func (w refresher) Refresh(ctx context.Context, ref backend.Ref, volumes []backend.VolumeSpec) error {
	c := Call{Method: RefreshRefresh, UID: ref.UID, Attempt: ref.Attempt}
	return w.script.do(ctx, c, func() error { return w.inner.Refresh(ctx, ref, volumes) })
}
