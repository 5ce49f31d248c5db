package cri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// files implements [backend.Files] by host operations.
type files struct{ *remote }

// Place makes a volume on the host. A hostPath is there or, as its type says, made;
// nothing of it is the pod's.
func (f files) Place(ctx context.Context, spec backend.VolumeSpec) error {
	defer f.throttle.Begin()()
	if h := spec.Source.HostPath; h != nil && !convert.Claimed(spec) {
		source, err := f.convert.HostSource(spec.Name, h)
		if err != nil {
			return err
		}
		if _, err := f.host.Prepare(ctx, host.Preparation{Sources: []host.Source{source}}); err != nil {
			return err
		}
		return nil
	}
	v, err := f.convert.Volume(spec)
	if err != nil {
		return err
	}
	return f.host.Place(ctx, v)
}

// Clear removes all volumes of a pod. Errors: NotFound when none is left.
func (f files) Clear(ctx context.Context, ref backend.Ref) error {
	err := f.host.Clear(ctx, f.convert.PodDir(ref.UID))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return backend.Errorf(backend.ErrNotFound, "clear volumes of pod %s/%s: %w", ref.Namespace, ref.Name, err)
	default:
		return fmt.Errorf("clear volumes of pod %s/%s: %w", ref.Namespace, ref.Name, err)
	}
}

// Volumes lists what is placed. One that a reboot took away is listed without a
// hash: it is to be placed again, and to be cleared with its pod.
func (f files) Volumes(ctx context.Context) ([]backend.VolumeFacts, error) {
	placed, err := f.host.Volumes(ctx, f.cfg.PodsDir, f.cfg.NodeIdentity)
	if err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	out := make([]backend.VolumeFacts, len(placed))
	for i, p := range placed {
		out[i] = backend.VolumeFacts{
			Pod:  backend.Ref{UID: types.UID(p.UID), Namespace: p.Namespace, Name: p.PodName},
			Name: p.Name, Hash: p.Hash, PlacedAt: f.clock.ours(p.PlacedAt),
		}
	}
	return out, nil
}

// Read returns a file of a volume as it is on the host now.
func (f files) Read(ctx context.Context, file backend.VolumeFile) ([]byte, error) {
	data, err := f.host.ReadWithin(ctx, host.FileWithin{
		Dir: f.convert.PodDir(file.Pod.UID).Volume(file.Volume), Path: file.Path, Limit: backend.MaxReadFile,
	})
	switch {
	case err == nil:
		return data, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, backend.Errorf(
			backend.ErrNotFound, "read %s of pod %s/%s: %w", file, file.Pod.Namespace, file.Pod.Name, err,
		)
	default:
		return nil, fmt.Errorf("read %s of pod %s/%s: %w", file, file.Pod.Namespace, file.Pod.Name, err)
	}
}
