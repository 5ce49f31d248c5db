package fault

import (
	"context"
	"time"

	"github.com/burstlet/burstlet/backend"
)

type store struct {
	inner  backend.ImageStore
	script *Script
	memory memory[backend.ImageFacts]
}

func (w *store) List(ctx context.Context) ([]backend.ImageFacts, error) {
	return read(ctx, w.script, Call{Method: StoreList}, w.memory.old, func() ([]backend.ImageFacts, error) {
		from := time.Now()
		facts, err := w.inner.List(ctx)
		if err == nil {
			w.memory.keep(facts, from)
		}
		return facts, err
	})
}

func (w *store) Remove(ctx context.Context, id string) error {
	return w.script.do(ctx, Call{Method: StoreRemove}, func() error { return w.inner.Remove(ctx, id) })
}

func (w *store) Disk(ctx context.Context) (backend.FilesystemUsage, error) {
	var usage backend.FilesystemUsage
	err := w.script.do(ctx, Call{Method: StoreDisk}, func() (err error) {
		usage, err = w.inner.Disk(ctx)
		return err
	})
	if err != nil {
		return backend.FilesystemUsage{}, err
	}
	return usage, nil
}
