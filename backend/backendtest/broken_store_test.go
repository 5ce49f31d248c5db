package backendtest_test

import (
	"context"

	"github.com/burstlet/burstlet/backend"
)

// brokenStore breaks the rules of ImageStore.
var brokenStore = map[string]brokenBackend{
	"no image is listed": {"store/lists_what_is_pulled", false, func(b backend.Backend) backend.Backend {
		return withStore(b, store{list: func([]backend.ImageFacts) []backend.ImageFacts { return nil }})
	}},
	"images have no names": {"store/lists_what_is_pulled", false, func(b backend.Backend) backend.Backend {
		return withStore(b, store{list: each(func(f *backend.ImageFacts) { f.Names = nil })})
	}},
	"images have no size": {"store/lists_what_is_pulled", false, func(b backend.Backend) backend.Backend {
		return withStore(b, store{list: each(func(f *backend.ImageFacts) { f.Size = 0 })})
	}},
	"no image is used": {"store/what_a_container_uses_stays", false, func(b backend.Backend) backend.Backend {
		return withStore(b, store{list: each(func(f *backend.ImageFacts) { f.Used = false })})
	}},
	"every image is used": {"store/removes_what_nobody_uses", false, func(b backend.Backend) backend.Backend {
		return withStore(b, store{list: each(func(f *backend.ImageFacts) { f.Used = true })})
	}},
	"removal does nothing": {"store/removes_what_nobody_uses", false, func(b backend.Backend) backend.Backend {
		return withStore(b, store{remove: func(string) error { return nil }})
	}},
	"removing nothing is success": {"store/what_is_not_there_is_NotFound", false, func(b backend.Backend) backend.Backend {
		return withStore(b, store{remove: func(string) error { return nil }})
	}},
	"the disk is unknown": {"store/the_disk_of_images", false, func(b backend.Backend) backend.Backend {
		return withStore(b, store{disk: func(u *backend.FilesystemUsage) { *u = backend.FilesystemUsage{} }})
	}},
	"more is free than there is": {"store/the_disk_of_images", false, func(b backend.Backend) backend.Backend {
		return withStore(b, store{disk: func(u *backend.FilesystemUsage) { u.Available = new(*u.Capacity + 1) }})
	}},
}

// store changes what is set of another.
type store struct {
	backend.ImageStore
	list   func([]backend.ImageFacts) []backend.ImageFacts
	remove func(id string) error
	disk   func(*backend.FilesystemUsage)
}

func withStore(b backend.Backend, s store) backend.Backend {
	if b.Store != nil {
		s.ImageStore = b.Store
		b.Store = s
	}
	return b
}

func (s store) List(ctx context.Context) ([]backend.ImageFacts, error) {
	facts, err := s.ImageStore.List(ctx)
	if err == nil && s.list != nil {
		facts = s.list(facts)
	}
	return facts, err
}

func (s store) Remove(ctx context.Context, id string) error {
	if s.remove != nil {
		return s.remove(id)
	}
	return s.ImageStore.Remove(ctx, id)
}

func (s store) Disk(ctx context.Context) (backend.FilesystemUsage, error) {
	usage, err := s.ImageStore.Disk(ctx)
	if err == nil && s.disk != nil {
		s.disk(&usage)
	}
	return usage, err
}

// each changes every image of a list.
func each(edit func(*backend.ImageFacts)) func([]backend.ImageFacts) []backend.ImageFacts {
	return func(facts []backend.ImageFacts) []backend.ImageFacts {
		for i := range facts {
			edit(&facts[i])
		}
		return facts
	}
}
