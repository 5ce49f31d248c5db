package cri

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"

	"github.com/containerd/log"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/transport"
)

// containers implements [backend.Containers].
type containers struct{ *remote }

// Start creates and starts one attempt of a container. One that was created by
// an earlier call is started; one that was started is left as it is.
func (c containers) Start(ctx context.Context, ref backend.Ref, spec backend.ContainerSpec) error {
	err := c.start(ctx, ref, spec)
	if errors.Is(err, backend.ErrUnavailable) {
		return fmt.Errorf("start container %s of pod %s/%s: %w", spec.Container.Name, ref.Namespace, ref.Name, err)
	}
	// What the runtime or the host says of a container stands alone in its status, as a
	// kubelet's does.
	return err
}

func (c containers) start(ctx context.Context, ref backend.Ref, spec backend.ContainerSpec) error {
	defer c.throttle.Begin()()
	if err := c.mayRun(spec); err != nil {
		return err
	}
	sandbox, err := c.newestSandbox(ctx, ref)
	if err != nil {
		return err
	}
	if err := c.limitPod(ctx, spec.Pod, true); err != nil {
		return err
	}
	id, fresh, err := c.create(ctx, sandbox, spec)
	if err != nil {
		return err
	}
	c.details.Own(id, ref.UID)
	var linking sync.WaitGroup
	linking.Go(func() { c.link(ctx, sandbox, spec, id) })
	defer linking.Wait()
	if fresh {
		if err := c.startCreated(ctx, id); err != nil {
			return c.notStarted(ctx, id, transport.Classed(err, err))
		}
	}
	c.details.start(id, ref.UID)
	return nil
}

// endBefore makes sure that the attempt before does not run beside this one.
func (c containers) endBefore(ctx context.Context, ref backend.Ref, spec backend.ContainerSpec) error {
	if spec.Attempt == 0 {
		return nil
	}
	before, err := c.findContainer(ctx, ref.UID, spec.Container.Name, spec.Attempt-1)
	switch {
	case errors.Is(err, backend.ErrNotFound):
		return nil
	case err != nil:
		return err
	case before.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED:
		return nil
	}
	return c.killLeftover(ctx, before.GetId())
}

// newestSandbox is the ref of the pod's newest sandbox: the one named, the one just
// made, or found.
func (c containers) newestSandbox(ctx context.Context, ref backend.Ref) (backend.Ref, error) {
	if ref.ID != "" {
		return ref, nil
	}
	if made, ok := c.details.launchedAs(ref); ok {
		return made, nil
	}
	sandboxes, err := c.listSandboxes(ctx, ref.UID)
	if err != nil {
		return backend.Ref{}, err
	}
	if len(sandboxes) == 0 {
		return backend.Ref{}, backend.Errorf(backend.ErrNotFound, "pod has no sandbox")
	}
	newest := convert.SandboxRef(sandboxes[0])
	for _, s := range sandboxes[1:] {
		if r := convert.SandboxRef(s); r.Attempt > newest.Attempt {
			newest = r
		}
	}
	return newest, nil
}

// create returns the id of the attempt, made now or by an earlier call, and
// whether it is fresh: created and never started. The pod's hosts file is written
// beside: it has to be there before, and right when the container starts.
func (c containers) create(
	ctx context.Context, sandbox backend.Ref, spec backend.ContainerSpec,
) (id string, fresh bool, err error) {
	podConfig, err := c.sandboxConfig(ctx, spec.Pod, sandbox.Attempt)
	if err != nil {
		return "", false, err
	}
	if len(spec.ImageVolumes) > 0 { // of an ephemeral container the launch knew nothing
		if err := c.features.SupportsImageVolumes(ctx, spec.Pod); err != nil {
			return "", false, err
		}
	}
	config, err := c.containerConfig(ctx, spec, sandbox.Attempt)
	if err != nil {
		return "", false, err
	}
	config.Annotations[convert.AnnotationCgroup] = podConfig.Annotations[convert.AnnotationCgroup]
	if err := c.joinTarget(ctx, spec, config); err != nil {
		return "", false, err
	}
	hosts, err := c.prepareContainer(ctx, sandbox, spec, config, podConfig)
	if err != nil {
		return "", false, err
	}
	var writing errgroup.Group
	writing.Go(func() error { return c.writeHosts(ctx, hosts) })
	request := &runtimeapi.CreateContainerRequest{PodSandboxId: sandbox.ID, Config: config, SandboxConfig: podConfig}
	err = c.retryReserved(ctx, func() (bool, error) {
		reply, err := c.runtime.CreateContainer(ctx, request)
		if err == nil {
			id, fresh = reply.GetContainerId(), true
			return true, nil
		}
		if !reserved(err) {
			return true, transport.Classed(err, err)
		}
		found, err := c.adopt(ctx, sandbox, spec)
		id, fresh = found.GetId(), found.GetState() == runtimeapi.ContainerState_CONTAINER_CREATED
		return found != nil, err
	})
	return id, fresh, errors.Join(err, writing.Wait())
}

// adopt returns the container that holds the name if it is the one asked for.
// None and no error: an earlier call still works on it, or what held the name
// never started, could not be used and was removed.
func (c containers) adopt(
	ctx context.Context, sandbox backend.Ref, spec backend.ContainerSpec,
) (*runtimeapi.Container, error) {
	found, err := c.findContainer(ctx, spec.Pod.UID, spec.Container.Name, spec.Attempt)
	switch {
	case errors.Is(err, backend.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	switch {
	case found.GetPodSandboxId() == sandbox.ID && found.GetAnnotations()[convert.AnnotationHash] == spec.Hash:
		return found, nil
	case found.GetState() == runtimeapi.ContainerState_CONTAINER_CREATED:
		return nil, c.removeUnused(ctx, sandbox, found)
	default:
		return nil, backend.Errorf(
			backend.ErrExists, "attempt %d exists in another sandbox or from another spec (container %s)", spec.Attempt,
			found.GetId(),
		)
	}
}

// removeUnused removes a container that never ran. Its task may have been made all the
// same, and then goes with it; so does what stands in a cgroup and never became one.
func (c containers) removeUnused(ctx context.Context, sandbox backend.Ref, found *runtimeapi.Container) error {
	if err := c.removeContainer(ctx, found.GetId()); err != nil {
		return err
	}
	left := leftoversOf(found, found.GetId())
	if left == nil {
		return nil
	}
	return c.discard(ctx, sandbox, host.Discard{Left: left})
}

// findContainer finds one attempt by its labels. Errors: NotFound.
func (r *remote) findContainer(
	ctx context.Context, uid types.UID, name string, attempt int,
) (*runtimeapi.Container, error) {
	selector := r.convert.Selector(uid)
	selector[convert.LabelContainerName] = name
	list, err := r.listContainers(ctx, selector)
	if err != nil {
		return nil, err
	}
	for _, c := range list {
		if int(c.GetMetadata().GetAttempt()) == attempt {
			return c, nil
		}
	}
	return nil, backend.Errorf(backend.ErrNotFound, "no attempt %d of container %s", attempt, name)
}

// startCreated starts what was created, or waits for an earlier call that does: one
// whose reply was lost is still at work when it is repeated at once.
func (c containers) startCreated(ctx context.Context, id string) error {
	return c.retryReserved(ctx, func() (bool, error) {
		_, err := c.runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
		switch {
		case err == nil:
			return true, nil
		case strings.Contains(err.Error(), "already in starting state"):
			return false, nil
		}
		s, lookErr := c.askContainer(ctx, id)
		switch {
		case lookErr == nil && s.GetStartedAt() > 0:
			// Another call has started it, or it started although the reply was lost.
			return true, nil
		default:
			return true, err
		}
	})
}

// notStarted marks the error of a start where the runtime shows the container as ended.
func (c containers) notStarted(ctx context.Context, id string, err error) error {
	s, lookErr := c.askContainer(ctx, id)
	if lookErr == nil && s.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED && s.GetStartedAt() == 0 {
		return backend.NotStarted(err)
	}
	return err
}

// link makes the log findable for collectors. Without it the container runs all
// the same, so a failure is only logged.
func (c containers) link(ctx context.Context, sandbox backend.Ref, spec backend.ContainerSpec, id string) {
	pod := backend.Ref{UID: spec.Pod.UID, Namespace: spec.Pod.Namespace, Name: spec.Pod.Name, Attempt: sandbox.Attempt}
	target := path.Join(c.convert.LogDir(pod), convert.LogPath(spec.Container.Name, spec.Attempt))
	_, err := c.host.Prepare(ctx, host.Preparation{
		Dirs:  []string{c.cfg.ContainerLogsDir},
		Links: []host.Link{{Target: target, Path: c.convert.LogLink(pod, spec.Container.Name, id)}},
	})
	if err != nil {
		log.G(ctx).WithError(err).WithField("container", id).Warn("failed to link the container's log for log collectors")
	}
}
