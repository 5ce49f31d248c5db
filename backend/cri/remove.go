package cri

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/containerd/log"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/transport"
)

// Remove deletes one attempt and, with the last one, the pod's logs and cgroup.
// It goes by what a listing shows: NotFound means that one showed nothing.
func (p pods) Remove(ctx context.Context, ref backend.Ref) error {
	defer p.throttle.Begin()()
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
		return backend.Errorf(
			backend.ErrNotFound, "remove pod %s/%s: nothing is left of attempt %d", ref.Namespace, ref.Name, ref.Attempt,
		)
	}
	for _, v := range these {
		if err := p.removeView(ctx, v, len(others) == 0); err != nil {
			return fmt.Errorf("remove pod %s/%s: %w", v.ref.Namespace, v.ref.Name, err)
		}
	}
	return nil
}

// removeView deletes the sandbox last but for the logs, whose mark says whose cgroup
// is left: whatever interrupts, the rest is known.
func (p pods) removeView(ctx context.Context, v *view, last bool) error {
	if v.sandbox != nil {
		if err := p.stopper.Leave(ctx, v.ref.ID); err != nil {
			return err
		}
	}
	if len(v.running()) > 0 { // else RemovePodSandbox ends the sandbox, and frees what a failed stop left
		if err := (runtimeStops{p.runtime}).StopSandbox(ctx, v.ref.ID); err != nil {
			return err
		}
	}
	if err := p.discardContainers(ctx, v, last); err != nil {
		return err
	}
	if v.sandbox == nil {
		for _, c := range v.containers {
			if err := p.removeContainer(ctx, c.GetId()); err != nil {
				return err
			}
		}
		if last {
			return p.removeLogs(ctx, v.ref)
		}
		return nil
	}
	if err := p.removeDead(ctx, v); err != nil {
		return err
	}
	if last {
		return p.discardPod(ctx, v)
	}
	return nil
}

// discardContainers removes what the host keeps for an attempt's containers, in one
// operation: links and bound subPaths. Of a pod that has another attempt, what is left
// in its cgroup of this one goes as well.
func (p pods) discardContainers(ctx context.Context, v *view, last bool) error {
	var d host.Discard
	if !last {
		d.Left = v.leftovers()
	}
	if len(v.containers) == 0 && d.Left == nil {
		return nil
	}
	for _, c := range v.containers {
		name := c.GetMetadata().GetName()
		subPaths := p.convert.PodDir(v.ref.UID).SubPaths(convert.AttemptName(name, int(c.GetMetadata().GetAttempt())))
		d.Unmount = append(d.Unmount, subPaths)
		d.Trees = append(d.Trees, subPaths, p.convert.LogLink(v.ref, name, c.GetId()))
	}
	if err := p.discard(ctx, v.ref, d); err != nil {
		return fmt.Errorf("remove what the host keeps for its containers: %w", err)
	}
	return nil
}

// leftovers are those of an attempt whose containers have ended.
func (v *view) leftovers() *host.Leftovers {
	ids := v.ids()
	if v.ready() { // its end is the runtime's
		ids = ids[1:]
	}
	return leftoversOf(v.sandbox, ids...)
}

// ids are those of the sandbox, which is the first, and of the containers.
func (v *view) ids() []string {
	ids := []string{v.ref.ID}
	for _, c := range v.containers {
		ids = append(ids, c.GetId())
	}
	return ids
}

// leftoversOf is nil where the pod's cgroup is not known.
func leftoversOf(of annotated, ids ...string) *host.Leftovers {
	cgroup := cgroupOf(of)
	if cgroup == nil {
		return nil
	}
	return &host.Leftovers{Cgroup: *cgroup, IDs: ids}
}

// annotated is a sandbox or a container.
type annotated interface{ GetAnnotations() map[string]string }

// cgroupOf is the pod's cgroup, which its sandbox and containers name; nil if they
// do not.
func cgroupOf(of annotated) *host.Cgroup {
	return host.Ownership{Cgroup: of.GetAnnotations()[convert.AnnotationCgroup]}.PodCgroup()
}

// discardPod removes the pod's logs and cgroup.
func (p pods) discardPod(ctx context.Context, v *view) error {
	d := host.Discard{Cgroup: cgroupOf(v.sandbox)}
	if named(v.ref) {
		d.Trees = []string{p.convert.LogDir(v.ref)}
	}
	if err := p.discard(ctx, v.ref, d); err != nil {
		return fmt.Errorf("remove the pod's logs and cgroup: %w", err)
	}
	return nil
}

// discard only logs a cgroup's failure, unless the host cannot be asked: what
// cannot be killed there must not keep the pod from going.
func (r *remote) discard(ctx context.Context, ref backend.Ref, d host.Discard) error {
	_, err := r.host.Discard(ctx, d)
	if err == nil || d.Cgroup == nil && d.Left == nil || errors.Is(err, backend.ErrUnavailable) || ctx.Err() != nil {
		return err
	}
	log.G(ctx).WithError(err).WithField("uid", ref.UID).Warn("failed to remove the pod's cgroup")
	if d.Cgroup != nil {
		// Of the trees the mark is left, by which the sweep finds the cgroup.
		d.Trees = nil
	}
	d.Cgroup, d.Left = nil, nil
	_, err = r.host.Discard(ctx, d)
	return err
}

// named is true of a ref that names a directory of logs.
func named(ref backend.Ref) bool { return ref.Name != "" && ref.Namespace != "" && ref.UID != "" }

// removeDead deletes a sandbox with its containers, and what is left running
// of them.
func (p pods) removeDead(ctx context.Context, v *view) error {
	request := &runtimeapi.RemovePodSandboxRequest{PodSandboxId: v.ref.ID}
	_, err := p.runtime.RemovePodSandbox(ctx, request)
	if err != nil && !transport.IsNotFound(err) {
		if err := p.killLeftovers(ctx, v); err != nil {
			return err
		}
		_, err = p.runtime.RemovePodSandbox(ctx, request)
	}
	if err != nil && !transport.IsNotFound(err) {
		return transport.Failed(err, "remove sandbox %s", v.ref.ID)
	}
	return nil
}

// removeContainer deletes a dead container, and what is left running of it.
func (r *remote) removeContainer(ctx context.Context, id string) error {
	request := &runtimeapi.RemoveContainerRequest{ContainerId: id}
	_, err := r.runtime.RemoveContainer(ctx, request)
	if err != nil && !transport.IsNotFound(err) {
		if err := r.killLeftover(ctx, id); err != nil {
			return err
		}
		_, err = r.runtime.RemoveContainer(ctx, request)
	}
	if err != nil && !transport.IsNotFound(err) {
		return transport.Failed(err, "remove container %s", id)
	}
	return nil
}

// removeLogs removes what a launch made that never became a sandbox: logs and a cgroup.
func (r *remote) removeLogs(ctx context.Context, ref backend.Ref) error {
	if !named(ref) {
		return nil
	}
	dir := r.convert.LogDir(ref)
	mark, err := r.host.ReadFile(ctx, path.Join(dir, host.LogMark), host.MaxMark)
	if err != nil && !isNotExist(err) {
		return fmt.Errorf("read whose the logs of pod %s/%s are: %w", ref.Namespace, ref.Name, err)
	}
	discard := host.Discard{Trees: []string{dir}}
	if o := host.ReadOwnership(mark); o.Node == r.cfg.NodeIdentity {
		discard.Cgroup = o.PodCgroup()
	}
	if _, err := r.host.Discard(ctx, discard); err != nil {
		return fmt.Errorf("remove logs of pod %s/%s: %w", ref.Namespace, ref.Name, err)
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
	pod, err := convert.ContainerPodRef(found)
	if err != nil {
		return err
	}
	subPaths := c.convert.PodDir(ref.Pod.UID).SubPaths(convert.AttemptName(ref.Name, ref.Attempt))
	log := path.Join(c.convert.LogDir(pod), convert.LogPath(ref.Name, ref.Attempt))
	err = c.discard(ctx, pod, host.Discard{
		Left:    leftoversOf(found, found.GetId()),
		Unmount: []string{subPaths},
		Trees: []string{
			subPaths, c.convert.LogLink(pod, ref.Name, found.GetId()), log, c.convert.MessageFile(pod, ref.Name, ref.Attempt),
		},
		RotatedLogs: []string{log},
	})
	if err != nil {
		return fmt.Errorf("remove what the host keeps for container %s: %w", found.GetId(), err)
	}
	return c.removeContainer(ctx, found.GetId())
}
