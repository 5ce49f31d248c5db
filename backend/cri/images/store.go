package images

import (
	"context"
	"fmt"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/features"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/stats"
	"github.com/burstlet/burstlet/backend/cri/transport"
)

// Store implements [backend.ImageStore].
type Store struct {
	puller   *Puller
	runtime  runtimeapi.RuntimeServiceClient
	host     host.Host
	features *features.Runtime
	root     string // of what the node has on its host
}

// NewStore is of the runtime that the puller has; root is where the node has on its host
// what is its own.
func NewStore(
	p *Puller, runtime runtimeapi.RuntimeServiceClient, h host.Host, f *features.Runtime, root string,
) *Store {
	return &Store{puller: p, runtime: runtime, host: h, features: f, root: root}
}

// List marks what any container of the runtime uses, ours or not.
func (s *Store) List(ctx context.Context) ([]backend.ImageFacts, error) {
	reply, err := s.puller.api.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	if err != nil {
		return nil, transport.Failed(err, "list images")
	}
	used, err := s.used(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]backend.ImageFacts, 0, len(reply.GetImages()))
	for _, i := range reply.GetImages() {
		out = append(out, backend.ImageFacts{
			ID: i.GetId(), Names: slices.Concat(i.GetRepoDigests(), i.GetRepoTags()), Size: i.GetSize(),
			Pinned: i.GetPinned(), Used: slices.ContainsFunc(imageNames(i), func(n string) bool { return used[n] }),
		})
	}
	return out, nil
}

// used are the names and ids of images that containers and sandboxes of anybody use.
func (s *Store) used(ctx context.Context) (map[string]bool, error) {
	containers, err := s.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, transport.Failed(err, "list containers")
	}
	out := map[string]bool{}
	for _, c := range containers.GetContainers() {
		out[c.GetImage().GetImage()], out[c.GetImageRef()] = true, true
		mounted, err := s.mountedImages(ctx, c)
		if err != nil {
			return nil, err
		}
		for _, image := range mounted {
			out[image] = true
		}
	}
	image, err := s.features.SandboxImage(ctx)
	if err != nil {
		return nil, err
	}
	out[image] = true
	delete(out, "")
	return out, nil
}

func imageNames(i *runtimeapi.Image) []string {
	return slices.Concat([]string{i.GetId()}, i.GetRepoTags(), i.GetRepoDigests())
}

// Remove removes an image that no container uses.
func (s *Store) Remove(ctx context.Context, id string) error {
	found, err := s.puller.status(ctx, id)
	if err != nil {
		return err
	}
	if found == nil {
		return backend.Errorf(backend.ErrNotFound, "remove image %s: not on the host", id)
	}
	used, err := s.used(ctx)
	if err != nil {
		return err
	}
	if found.GetPinned() || slices.ContainsFunc(imageNames(found), func(n string) bool { return used[n] }) {
		return fmt.Errorf("remove image %s: a container uses it", id)
	}
	if _, err := s.puller.api.RemoveImage(
		ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: found.GetId()}},
	); err != nil {
		return transport.Failed(err, "remove image %s", id)
	}
	return nil
}

// Disk is the file system of the runtime's snapshots.
func (s *Store) Disk(ctx context.Context) (backend.FilesystemUsage, error) {
	mount, err := s.Mount(ctx)
	if err != nil {
		return backend.FilesystemUsage{}, err
	}
	usage, err := s.host.Usage(ctx, host.UsageRequest{Root: s.root, Images: mount})
	if err != nil {
		return backend.FilesystemUsage{}, fmt.Errorf("measure the file system of images: %w", err)
	}
	return stats.Filesystem(usage.Images), nil
}

// Mount is a path on the file system of images.
func (s *Store) Mount(ctx context.Context) (string, error) {
	reply, err := s.puller.api.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
	if err != nil {
		return "", transport.Failed(err, "ask where images are kept")
	}
	for _, f := range reply.GetImageFilesystems() {
		if m := f.GetFsId().GetMountpoint(); m != "" {
			return m, nil
		}
	}
	return "", backend.Errorf(backend.ErrUnsupported, "the runtime does not say where images are kept")
}

// mountedImages are the images that a container of anybody mounts. Ours say so in their
// listing; of others the runtime is asked (kubelet: handleImageVolumes).
func (s *Store) mountedImages(ctx context.Context, c *runtimeapi.Container) ([]string, error) {
	if _, ours := c.GetLabels()[convert.LabelNode]; ours {
		return strings.Split(c.GetAnnotations()[convert.AnnotationImageVolumes], ","), nil
	}
	reply, err := s.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: c.GetId()})
	switch {
	case transport.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, transport.Failed(err, "ask for the mounts of container %s", c.GetId())
	}
	var out []string
	for _, m := range reply.GetStatus().GetMounts() {
		out = append(out, m.GetImage().GetImage())
	}
	return out, nil
}
