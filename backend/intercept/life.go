package intercept

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// The wrappers of what pods are made with and of.

type pods struct {
	inner backend.Pods
	around
}

func (p pods) Launch(ctx, wanted context.Context, spec backend.LaunchSpec) error {
	next := func(ctx context.Context) error { return p.inner.Launch(ctx, wanted, spec) }
	return act(ctx, p.around, PodsLaunch, next, &spec)
}

func (p pods) Stop(ctx context.Context, ref backend.Ref, grace time.Duration) error {
	next := func(ctx context.Context) error { return p.inner.Stop(ctx, ref, grace) }
	return act(ctx, p.around, PodsStop, next, &ref, &grace)
}

func (p pods) Remove(ctx context.Context, ref backend.Ref) error {
	next := func(ctx context.Context) error { return p.inner.Remove(ctx, ref) }
	return act(ctx, p.around, PodsRemove, next, &ref)
}

func (p pods) List(ctx context.Context) ([]backend.PodFacts, error) {
	next := func(ctx context.Context) ([]backend.PodFacts, error) { return p.inner.List(ctx) }
	return ask(ctx, p.around, PodsList, next)
}

func (p pods) Inspect(ctx context.Context, uids []types.UID) ([]backend.PodFacts, error) {
	next := func(ctx context.Context) ([]backend.PodFacts, error) { return p.inner.Inspect(ctx, uids) }
	return ask(ctx, p.around, PodsInspect, next, &uids)
}

type containers struct {
	inner backend.Containers
	around
}

func (c containers) Start(ctx context.Context, ref backend.Ref, spec backend.ContainerSpec) error {
	next := func(ctx context.Context) error { return c.inner.Start(ctx, ref, spec) }
	return act(ctx, c.around, ContainersStart, next, &ref, &spec)
}

func (c containers) Stop(ctx context.Context, ref backend.ContainerRef, grace time.Duration) error {
	next := func(ctx context.Context) error { return c.inner.Stop(ctx, ref, grace) }
	return act(ctx, c.around, ContainersStop, next, &ref, &grace)
}

func (c containers) Remove(ctx context.Context, ref backend.ContainerRef) error {
	next := func(ctx context.Context) error { return c.inner.Remove(ctx, ref) }
	return act(ctx, c.around, ContainersRemove, next, &ref)
}

type resizer struct {
	inner backend.Resizer
	around
}

func (r resizer) Resize(ctx context.Context, ref backend.ContainerRef, spec backend.ContainerSpec) error {
	next := func(ctx context.Context) error { return r.inner.Resize(ctx, ref, spec) }
	return act(ctx, r.around, ResizeResize, next, &ref, &spec)
}

type files struct {
	inner backend.Files
	around
}

func (v files) Place(ctx context.Context, spec backend.VolumeSpec) error {
	next := func(ctx context.Context) error { return v.inner.Place(ctx, spec) }
	return act(ctx, v.around, FilesPlace, next, &spec)
}

func (v files) Clear(ctx context.Context, ref backend.Ref) error {
	next := func(ctx context.Context) error { return v.inner.Clear(ctx, ref) }
	return act(ctx, v.around, FilesClear, next, &ref)
}

func (v files) Volumes(ctx context.Context) ([]backend.VolumeFacts, error) {
	next := func(ctx context.Context) ([]backend.VolumeFacts, error) { return v.inner.Volumes(ctx) }
	return ask(ctx, v.around, FilesVolumes, next)
}

func (v files) Read(ctx context.Context, file backend.VolumeFile) ([]byte, error) {
	next := func(ctx context.Context) ([]byte, error) { return v.inner.Read(ctx, file) }
	return ask(ctx, v.around, FilesRead, next, &file)
}

type refresher struct {
	inner backend.Refresher
	around
}

func (r refresher) Refresh(ctx context.Context, ref backend.Ref, volumes []backend.VolumeSpec) error {
	next := func(ctx context.Context) error { return r.inner.Refresh(ctx, ref, volumes) }
	return act(ctx, r.around, RefreshRefresh, next, &ref, &volumes)
}

type images struct {
	inner backend.Images
	around
}

func (i images) Find(ctx context.Context, image string) (string, error) {
	next := func(ctx context.Context) (string, error) { return i.inner.Find(ctx, image) }
	return ask(ctx, i.around, ImagesFind, next, &image)
}

func (i images) Pull(ctx context.Context, image string, creds []backend.Credential) (backend.PulledImage, error) {
	next := func(ctx context.Context) (backend.PulledImage, error) { return i.inner.Pull(ctx, image, creds) }
	return ask(ctx, i.around, ImagesPull, next, &image, &creds)
}

type store struct {
	inner backend.ImageStore
	around
}

func (s store) List(ctx context.Context) ([]backend.ImageFacts, error) {
	next := func(ctx context.Context) ([]backend.ImageFacts, error) { return s.inner.List(ctx) }
	return ask(ctx, s.around, StoreList, next)
}

func (s store) Remove(ctx context.Context, id string) error {
	next := func(ctx context.Context) error { return s.inner.Remove(ctx, id) }
	return act(ctx, s.around, StoreRemove, next, &id)
}

func (s store) Disk(ctx context.Context) (backend.FilesystemUsage, error) {
	next := func(ctx context.Context) (backend.FilesystemUsage, error) { return s.inner.Disk(ctx) }
	return ask(ctx, s.around, StoreDisk, next)
}

type pullRecords struct {
	inner backend.PullRecords
	around
}

func (p pullRecords) Load(ctx context.Context) ([]byte, error) {
	next := func(ctx context.Context) ([]byte, error) { return p.inner.Load(ctx) }
	return ask(ctx, p.around, PullRecordsLoad, next)
}

func (p pullRecords) Save(ctx context.Context, data []byte) error {
	next := func(ctx context.Context) error { return p.inner.Save(ctx, data) }
	return act(ctx, p.around, PullRecordsSave, next, &data)
}

// sweeping is Sweep, intercepted.
func sweeping(sweep sweepFunc, a around) sweepFunc {
	return func(ctx context.Context) ([]string, error) {
		return ask(ctx, a, Sweep, func(ctx context.Context) ([]string, error) { return sweep(ctx) })
	}
}

// confirming is Confirm, intercepted.
func confirming(confirm confirmFunc, a around) confirmFunc {
	return func(ctx context.Context) error { return act(ctx, a, Confirm, confirm) }
}

// running is Run, intercepted.
func running(run runFunc, a around) runFunc {
	return func(ctx context.Context, may backend.Permit) error {
		return act(ctx, a, Run, func(ctx context.Context) error { return run(ctx, may) }, &may)
	}
}
