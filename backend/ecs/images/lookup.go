package images

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/taskdef"
)

// Reasons in the kubelet's words.
const (
	reasonImagePull = "ErrImagePull"
	reasonConfig    = "CreateContainerConfigError"
	reasonCreate    = "CreateContainerError"
)

// LookUp asks for the images of a launch whose containers are supervised. Errors: a
// ContainerError for an image that must be known and is not, or whose user is not
// allowed; Throttled for one that was given up with the context or the backend.
func LookUp(ctx context.Context, cfg taskdef.Config, images Configs, spec backend.LaunchSpec) (taskdef.Images, error) {
	if cfg.TaskImage == "" {
		return nil, nil
	}
	arch, err := taskdef.Arch(cfg, spec.Pod)
	if err != nil {
		return nil, err
	}
	out := taskdef.Images{}
	for _, c := range spec.Containers {
		found, err := lookUpOne(ctx, images, arch, c)
		switch {
		case err == nil:
			out[c.Container.Name] = found
		case ctx.Err() != nil, errors.Is(err, errEnded):
			return nil, backend.Errorf(backend.ErrThrottled, "look up image %q: %w", c.Container.Image, err)
		case taskdef.NeedsImage(spec.Pod, c.Container):
			return nil, &backend.ContainerError{Container: c.Container.Name, Reason: imageReason(err), Err: err}
		}
	}
	for _, c := range spec.Containers {
		if err := taskdef.NonRoot(spec.Pod, c.Container, out); err != nil {
			return nil, &backend.ContainerError{Container: c.Container.Name, Reason: reasonConfig, Err: err}
		}
		if taskdef.Argv(c, out) == nil {
			return nil, &backend.ContainerError{
				Container: c.Container.Name, Reason: reasonCreate, Err: taskdef.ErrNoCommand,
			}
		}
	}
	return out, nil
}

var errImageName = errors.New("InvalidImageName")

func imageReason(err error) string {
	if errors.Is(err, errImageName) {
		return errImageName.Error()
	}
	return reasonImagePull
}

func lookUpOne(ctx context.Context, images Configs, arch string, c backend.ContainerSpec) (taskdef.ImageConfig, error) {
	image := c.Container.Image
	if _, err := name.ParseReference(image); err != nil {
		return taskdef.ImageConfig{}, fmt.Errorf("%w: Failed to apply default image tag %q: %w", errImageName,
			image, err)
	}
	config, err := images.Config(ctx, image, arch, c.Credentials)
	if err != nil {
		return taskdef.ImageConfig{}, fmt.Errorf("look up image %q: %w", image, err)
	}
	return config, nil
}
