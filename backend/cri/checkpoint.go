package cri

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/transport"
)

// checkpointsDir is below the pods' directory. Archives hold the memory of processes:
// only root enters it.
const checkpointsDir = "checkpoints"

// checkpoints implements [backend.Checkpointer].
type checkpoints struct{ *remote }

// Checkpoint has the runtime write an archive, named as a kubelet names it.
func (c checkpoints) Checkpoint(ctx context.Context, ref backend.ContainerRef, timeout time.Duration) (string, error) {
	found, err := c.findContainer(ctx, ref.Pod.UID, ref.Name, ref.Attempt)
	if err != nil {
		return "", fmt.Errorf("checkpoint container %s: %w", ref.Name, err)
	}
	if found.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return "", backend.Errorf(backend.ErrNotFound, "checkpoint container %s: it does not run", ref.Name)
	}
	dir := path.Join(c.cfg.PodsDir, checkpointsDir)
	if _, err := c.host.Prepare(ctx, host.Preparation{Private: []string{dir}}); err != nil {
		return "", fmt.Errorf("checkpoint container %s: make the directory of archives: %w", ref.Name, err)
	}
	location := path.Join(dir, fmt.Sprintf("checkpoint-%s_%s-%s-%s.tar",
		ref.Pod.Name, ref.Pod.Namespace, ref.Name, time.Now().Format(time.RFC3339)))
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, err = c.runtime.CheckpointContainer(ctx, &runtimeapi.CheckpointContainerRequest{
		ContainerId: found.GetId(), Location: location, Timeout: int64(timeout / time.Second),
	})
	switch {
	case err == nil:
		return location, nil
	case status.Code(err) == codes.Unimplemented:
		return "", backend.Errorf(backend.ErrUnsupported,
			"checkpoint container %s: the container runtime cannot: containerd 2.1 or newer can, with criu on the host: %w",
			ref.Name, err)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "", fmt.Errorf("checkpoint container %s within %s: %w", ref.Name, timeout, err)
	default:
		return "", transport.Failed(err, "checkpoint container %s", ref.Name)
	}
}
