package cri

import (
	"context"
	"fmt"
	"path"

	"github.com/containerd/log"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
)

// Remove deletes one attempt and, with the last one, the pod's logs and cgroup.
// It goes by what a listing shows: NotFound means that one showed nothing.
func (p pods) Remove(ctx context.Context, ref backend.Ref) error {
	views, err := p.views(ctx, ref.UID)
	if err != nil {
		return fmt.Errorf("remove pod %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	these, others := split(views, ref.Attempt)
	if len(these) == 0 {
		if len(others) == 0 {
			// A launch that failed leaves a directory and nothing else.
			if err := p.removeLogs(ctx, ref); err != nil {
				return err
			}
		}
		return backend.Errorf(backend.ErrNotFound, "remove pod %s/%s: nothing is left of attempt %d", ref.Namespace, ref.Name, ref.Attempt)
	}
	for _, v := range these {
		if err := p.removeView(ctx, v, len(others) == 0); err != nil {
			return fmt.Errorf("remove pod %s/%s: %w", v.ref.Namespace, v.ref.Name, err)
		}
	}
	return nil
}

// removeView deletes the sandbox last: as long as it is listed the rest is
// known, whatever interrupts.
func (p pods) removeView(ctx context.Context, v *view, last bool) error {
	if v.sandbox != nil {
		_, err := p.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: v.ref.ID})
		if err != nil && !isNotFound(err) {
			return failed(err, "stop sandbox %s", v.ref.ID)
		}
	}
	for _, c := range v.containers {
		if err := p.unlink(ctx, v.ref, c); err != nil {
			return err
		}
		if v.sandbox != nil {
			continue
		}
		if err := p.removeContainer(ctx, c.GetId()); err != nil {
			return err
		}
	}
	if last {
		if err := p.removeLogs(ctx, v.ref); err != nil {
			return err
		}
	}
	if v.sandbox == nil {
		return nil
	}
	if last {
		p.removeCgroup(ctx, v)
	}
	return p.removeDead(ctx, v)
}

// removeDead deletes a sandbox with its containers, and what is left running
// of them.
func (p pods) removeDead(ctx context.Context, v *view) error {
	request := &runtimeapi.RemovePodSandboxRequest{PodSandboxId: v.ref.ID}
	_, err := p.runtime.RemovePodSandbox(ctx, request)
	if err != nil && !isNotFound(err) {
		if err := p.killLeftovers(ctx, v); err != nil {
			return err
		}
		_, err = p.runtime.RemovePodSandbox(ctx, request)
	}
	if err != nil && !isNotFound(err) {
		return failed(err, "remove sandbox %s", v.ref.ID)
	}
	return nil
}

// removeContainer deletes a dead container, and what is left running of it.
func (r *remote) removeContainer(ctx context.Context, id string) error {
	request := &runtimeapi.RemoveContainerRequest{ContainerId: id}
	_, err := r.runtime.RemoveContainer(ctx, request)
	if err != nil && !isNotFound(err) {
		if err := r.killLeftover(ctx, id); err != nil {
			return err
		}
		_, err = r.runtime.RemoveContainer(ctx, request)
	}
	if err != nil && !isNotFound(err) {
		return failed(err, "remove container %s", id)
	}
	return nil
}

func (r *remote) removeLogs(ctx context.Context, ref backend.Ref) error {
	if ref.Name == "" || ref.Namespace == "" || ref.UID == "" {
		return nil
	}
	if err := r.host.RemoveAll(ctx, r.podLogDir(ref)); err != nil {
		return fmt.Errorf("remove logs of pod %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	return nil
}

// removeCgroup only tells of a failure: an empty cgroup holds nothing, and
// something that a person put there must not keep the pod from going.
func (p pods) removeCgroup(ctx context.Context, v *view) {
	parent := v.sandbox.GetAnnotations()[annotationCgroup]
	if parent == "" {
		return
	}
	if err := p.host.RemoveCgroup(ctx, parent); err != nil {
		log.G(ctx).WithError(err).WithField("uid", v.ref.UID).Warn("Failed to remove the pod's cgroup")
	}
}

func (r *remote) unlink(ctx context.Context, pod backend.Ref, c *runtimeapi.Container) error {
	if err := r.host.RemoveAll(ctx, r.logLink(pod, c.GetMetadata().GetName(), c.GetId())); err != nil {
		return fmt.Errorf("remove log link of container %s: %w", c.GetId(), err)
	}
	return nil
}

// Remove deletes one dead container with its log, link and termination message.
func (c containers) Remove(ctx context.Context, ref backend.ContainerRef) error {
	found, err := c.findContainer(ctx, ref.Pod.UID, ref.Name, ref.Attempt)
	if err != nil {
		return fmt.Errorf("remove container %s of pod %s/%s: %w", ref.Name, ref.Pod.Namespace, ref.Pod.Name, err)
	}
	if found.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
		return fmt.Errorf("remove container %s of pod %s/%s: it is running", ref.Name, ref.Pod.Namespace, ref.Pod.Name)
	}
	pod, err := containerPodRef(found)
	if err != nil {
		return err
	}
	if err := c.unlink(ctx, pod, found); err != nil {
		return err
	}
	if err := c.host.RemoveAll(ctx, path.Join(c.podLogDir(pod), logPath(ref.Name, ref.Attempt))); err != nil {
		return fmt.Errorf("remove log of container %s: %w", found.GetId(), err)
	}
	if err := c.host.RemoveAll(ctx, c.messageFile(pod, ref.Name, ref.Attempt)); err != nil {
		return fmt.Errorf("remove termination message of container %s: %w", found.GetId(), err)
	}
	return c.removeContainer(ctx, found.GetId())
}
