package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// What an image takes, and the file system of images holds, where Config does not
// say.
const (
	defaultImageSize = 64 << 20
	defaultImageDisk = 100 << 30
)

// storeView lends backend.ImageStore.
type storeView struct{ *view }

// List returns the images by their names, whichever node pulled them.
func (v storeView) List(ctx context.Context) ([]backend.ImageFacts, error) {
	const op = "list images"
	if err := v.request(ctx, op); err != nil {
		return nil, err
	}
	facts := v.list()
	if err := v.reply(ctx, op); err != nil {
		return nil, err
	}
	return facts, nil
}

func (v storeView) list() []backend.ImageFacts {
	now := v.lock()
	defer v.mu.Unlock()
	used := v.usedImages(now)
	out := make([]backend.ImageFacts, 0, len(v.images))
	for name, id := range v.images {
		out = append(out, backend.ImageFacts{
			ID: id, Names: []string{name}, Size: v.sizeOf(name), Pinned: v.pinned(name), Used: used[id],
		})
	}
	slices.SortFunc(out, func(a, b backend.ImageFacts) int { return strings.Compare(a.Names[0], b.Names[0]) })
	return out
}

// Remove deletes an image that no container has.
func (v storeView) Remove(ctx context.Context, id string) error {
	op := fmt.Sprintf("remove image %q", id)
	if err := v.request(ctx, op); err != nil {
		return err
	}
	if err := v.removeImage(id); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return v.reply(ctx, op)
}

func (v storeView) removeImage(id string) error {
	now := v.lock()
	defer v.mu.Unlock()
	for name, there := range v.images {
		switch {
		case there != id:
		case v.usedImages(now)[id]:
			return fmt.Errorf("a container uses it")
		default:
			delete(v.images, name)
			return nil
		}
	}
	return backend.Errorf(backend.ErrNotFound, "not on the remote")
}

// Disk is a file system of the images alone.
func (v storeView) Disk(ctx context.Context) (backend.FilesystemUsage, error) {
	const op = "measure the file system of images"
	if err := v.request(ctx, op); err != nil {
		return backend.FilesystemUsage{}, err
	}
	v.mu.Lock()
	usage := v.imageDisk()
	v.mu.Unlock()
	if err := v.reply(ctx, op); err != nil {
		return backend.FilesystemUsage{}, err
	}
	return usage, nil
}

// imageDisk is guarded by Remote.mu.
func (r *Remote) imageDisk() backend.FilesystemUsage {
	capacity, used := r.imageCapacity(), r.imageBytes()
	return backend.FilesystemUsage{
		Capacity: new(capacity), Used: new(used), Available: new(capacity - min(used, capacity)),
	}
}

func (r *Remote) imageCapacity() uint64 {
	if r.cfg.ImageDisk == 0 {
		return defaultImageDisk
	}
	return r.cfg.ImageDisk
}

func (r *Remote) imageBytes() uint64 {
	var sum uint64
	for name := range r.images {
		sum += r.sizeOf(name)
	}
	return sum
}

// sizeOf is what an image takes, by its normalized name.
func (r *Remote) sizeOf(name string) uint64 {
	if r.cfg.ImageSize == nil {
		return defaultImageSize
	}
	return r.cfg.ImageSize(name)
}

// pinned is true for the images that Config.Pinned names.
func (r *Remote) pinned(name string) bool {
	return slices.ContainsFunc(r.cfg.Pinned, func(p string) bool { return normalize(p) == name })
}

// usedImages are the ids of those that a container of any node, running or dead,
// was made from.
func (r *Remote) usedImages(now time.Time) map[string]bool {
	used := map[string]bool{}
	for _, a := range r.order {
		if a == nil || a.isGone(now) {
			continue
		}
		for _, c := range a.containers {
			used[c.imageID] = true
			for _, volume := range c.spec.ImageVolumes {
				used[imageID(volume.Reference)] = true
			}
		}
	}
	return used
}

// store puts an image on the file system of images, if there is room.
func (r *Remote) store(image, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := normalize(image)
	if _, there := r.images[name]; !there && r.imageBytes()+r.sizeOf(name) > r.imageCapacity() {
		return fmt.Errorf("pull image %q: failed to extract layer: write: no space left on device", image)
	}
	r.images[name] = id
	return nil
}
