package cri

import (
	"context"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/stopper"
	"github.com/burstlet/burstlet/backend/cri/transport"
)

// Stop lodges the end of every running container of the attempt, and of its
// sandbox after them. What holds nothing but an address is freed at once.
func (p pods) Stop(ctx context.Context, ref backend.Ref, grace time.Duration) error {
	views, err := p.views(ctx, ref.UID)
	if err != nil {
		return fmt.Errorf("stop pod %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	these, _ := split(views, ref.Attempt)
	lodged := false
	for _, v := range these {
		if err := p.killLeftovers(ctx, v); err != nil {
			return fmt.Errorf("stop pod %s/%s: %w", ref.Namespace, ref.Name, err)
		}
		running := v.running()
		switch {
		case v.ready() || len(running) > 0:
			job := stopper.Request{Containers: running, Grace: grace, Sandbox: v.ref.ID, Removable: v.ready() &&
				len(running) > 0}
			if err := p.stopper.Stop(ctx, job); err != nil {
				return fmt.Errorf("stop pod %s/%s: %w", ref.Namespace, ref.Name, err)
			}
			lodged = true
		case v.sandbox != nil:
			// Its process has died: the address may still be held, or a stop be about to free
			// it. Of two calls that take a network down, the second finds half of it.
			if err := p.stopper.Leave(ctx, v.ref.ID); err != nil {
				return fmt.Errorf("stop pod %s/%s: %w", ref.Namespace, ref.Name, err)
			}
			if err := (runtimeStops{p.runtime}).StopSandbox(ctx, v.ref.ID); err != nil {
				return fmt.Errorf("free the address of pod %s/%s: %w", ref.Namespace, ref.Name, err)
			}
		}
	}
	if !lodged {
		return backend.Errorf(
			backend.ErrNotFound, "stop pod %s/%s: nothing of attempt %d runs", ref.Namespace, ref.Name, ref.Attempt,
		)
	}
	return nil
}

// Stop lodges the end of one container. Errors: NotFound when it does not run.
func (c containers) Stop(ctx context.Context, ref backend.ContainerRef, grace time.Duration) error {
	found, err := c.findContainer(ctx, ref.Pod.UID, ref.Name, ref.Attempt)
	if err != nil {
		return fmt.Errorf("stop container %s of pod %s/%s: %w", ref.Name, ref.Pod.Namespace, ref.Pod.Name, err)
	}
	switch found.GetState() {
	case runtimeapi.ContainerState_CONTAINER_RUNNING, runtimeapi.ContainerState_CONTAINER_UNKNOWN:
	default:
		return backend.Errorf(
			backend.ErrNotFound, "stop container %s of pod %s/%s: it does not run", ref.Name, ref.Pod.Namespace, ref.Pod.Name,
		)
	}
	job := stopper.Request{Containers: []string{found.GetId()}, Grace: grace}
	if err := c.stopper.Stop(ctx, job); err != nil {
		return fmt.Errorf("stop container %s of pod %s/%s: %w", ref.Name, ref.Pod.Namespace, ref.Pod.Name, err)
	}
	return nil
}

// runtimeStops are CRI's calls that stop: stopper.Stopper holds them open. What the runtime
// does not know has stopped.
type runtimeStops struct {
	runtime runtimeapi.RuntimeServiceClient
}

// StopContainer is CRI's.
func (c runtimeStops) StopContainer(ctx context.Context, id string, seconds int64) error {
	_, err := c.runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: seconds})
	if err != nil && !transport.IsNotFound(err) {
		return transport.Failed(err, "stop container %s", id)
	}
	return nil
}

// StopSandbox is CRI's StopPodSandbox.
func (c runtimeStops) StopSandbox(ctx context.Context, id string) error {
	_, err := c.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
	if err != nil && !transport.IsNotFound(err) {
		return transport.Failed(err, "stop sandbox %s", id)
	}
	return nil
}
