package cri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cfs"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/transport"
)

// resizer implements [backend.Resizer].
type resizer struct{ *remote }

// Resize changes the container between two changes of the pod's cgroup: first that
// gets what the pod needs more than before, for no container may have more than its
// pod, and at last it loses what the pod needs less.
func (z resizer) Resize(ctx context.Context, ref backend.ContainerRef, spec backend.ContainerSpec) error {
	found, err := z.findContainer(ctx, ref.Pod.UID, ref.Name, ref.Attempt)
	if err != nil {
		return fmt.Errorf("resize container %s of pod %s/%s: %w", ref.Name, ref.Pod.Namespace, ref.Pod.Name, err)
	}
	if found.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return backend.Errorf(
			backend.ErrNotFound, "resize container %s of pod %s/%s: it does not run", ref.Name, ref.Pod.Namespace, ref.Pod.Name,
		)
	}
	now, err := z.enforced(ctx, found)
	if err != nil {
		return fmt.Errorf("resize container %s of pod %s/%s: %w", ref.Name, ref.Pod.Namespace, ref.Pod.Name, err)
	}
	want := convert.Resources(*backend.WithPodLimits(spec.Pod, &spec.Container.Resources))
	if err := z.fits(ctx, found, now, want); err != nil {
		return err
	}
	if err := z.limitPod(ctx, spec.Pod, true); err != nil {
		return err
	}
	if err := z.update(ctx, found.GetId(), want, spec); err != nil {
		return err
	}
	err = z.limitPod(ctx, spec.Pod, false)
	if errors.Is(err, syscall.EINVAL) && len(spec.Pod.Spec.Containers)+len(spec.Pod.Spec.InitContainers) > 1 {
		return nil // another container has more still; its own resize comes here too
	}
	return err
}

// limitPod makes the pod's cgroup what the pod needs. With raise it gives what a container
// needs that is about to start or to grow, and leaves what is more, for others may have it
// still. A cgroup that is not there gets its limits when it is made.
func (r *remote) limitPod(ctx context.Context, pod *corev1.Pod, raise bool) error {
	cgroup, err := r.podCgroup(ctx, pod)
	if err != nil {
		return err
	}
	limits := podLimitsOf(cgroup)
	if raise && r.details.limitedTo(pod.UID, limits) {
		return nil
	}
	cgroup.Raise = raise
	r.details.unlimit(pod.UID)
	_, err = r.host.Limit(ctx, cgroup)
	switch {
	case err == nil, isNotExist(err):
		r.details.limit(pod.UID, limits)
		return nil
	case errors.Is(err, syscall.EBUSY):
		return backend.Errorf(
			backend.ErrInvalid, "resize the cgroup of pod %s/%s: more memory is in use: %w", pod.Namespace, pod.Name, err,
		)
	default:
		return fmt.Errorf("resize the cgroup of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
}

// fits refuses a limit of memory below what is in use: the kernel would kill for it,
// or refuse (kubelet: validateMemoryResizeAction).
func (z resizer) fits(
	ctx context.Context, c *runtimeapi.Container, now, want *runtimeapi.LinuxContainerResources,
) error {
	limit := want.GetMemoryLimitInBytes()
	if limit == 0 || now.GetMemoryLimitInBytes() > 0 && limit >= now.GetMemoryLimitInBytes() {
		return nil
	}
	reply, err := z.runtime.ContainerStats(ctx, &runtimeapi.ContainerStatsRequest{ContainerId: c.GetId()})
	if err != nil {
		return transport.Failed(err, "measure container %s", c.GetMetadata().GetName())
	}
	if used := reply.GetStats().GetMemory().GetWorkingSetBytes().GetValue(); used > uint64(limit) {
		return backend.Errorf(backend.ErrInvalid, "attempting to set container %q memory limit (%d) below current usage (%d)",
			c.GetMetadata().GetName(), limit, used)
	}
	return nil
}

func (z resizer) update(
	ctx context.Context, id string, want *runtimeapi.LinuxContainerResources, spec backend.ContainerSpec,
) error {
	facts, err := z.hostFacts(ctx)
	if err != nil {
		return err
	}
	want = convert.EnforcedOn(&facts, want, z.convert.Swap(spec.Pod, &spec.Container, &facts))
	if want.CpuQuota == 0 {
		want.CpuQuota = -1 // none, where 0 would leave the one that is
	}
	_, err = z.runtime.UpdateContainerResources(
		ctx, &runtimeapi.UpdateContainerResourcesRequest{ContainerId: id, Linux: want},
	)
	if transport.IsNotFound(err) {
		return backend.Errorf(backend.ErrNotFound, "resize container %s: %w", spec.Container.Name, err)
	}
	if err != nil {
		return transport.Failed(err, "resize container %s", spec.Container.Name)
	}
	z.details.Forget(id)
	z.details.resize(id, convert.Enforced(spec.Container.Resources))
	return nil
}

// enforced asks what the runtime holds a container to.
func (r *remote) enforced(ctx context.Context, c *runtimeapi.Container) (*runtimeapi.LinuxContainerResources, error) {
	reply, err := r.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: c.GetId(), Verbose: true})
	if err != nil {
		return nil, transport.Failed(err, "look at container %s", c.GetId())
	}
	return resourcesOf(reply), nil
}

// resourcesOf are a container's as its status says: since containerd 1.7 by itself,
// before in its verbose status.
func resourcesOf(reply *runtimeapi.ContainerStatusResponse) *runtimeapi.LinuxContainerResources {
	if r := reply.GetStatus().GetResources().GetLinux(); r != nil {
		return r
	}
	var info struct {
		RuntimeSpec struct {
			Linux struct {
				Resources struct {
					CPU struct {
						Shares, Period uint64
						Quota          int64
					}
					Memory struct{ Limit int64 }
				}
			}
		}
	}
	if json.Unmarshal([]byte(reply.GetInfo()["info"]), &info) != nil {
		return nil // another runtime, which words it differently
	}
	res := info.RuntimeSpec.Linux.Resources
	return &runtimeapi.LinuxContainerResources{
		CpuShares: int64(res.CPU.Shares), CpuPeriod: int64(res.CPU.Period), CpuQuota: max(res.CPU.Quota, 0),
		MemoryLimitInBytes: max(res.Memory.Limit, 0),
	}
}

// resourceFacts are what a container is held to, in the pod's words as far as the
// runtime's numbers allow: what it was made with or resized to while those are the
// numbers, else what the numbers say. The runtime knows no request of memory.
func resourceFacts(
	was *corev1.ResourceRequirements, now *runtimeapi.LinuxContainerResources,
) *corev1.ResourceRequirements {
	if was == nil || now == nil {
		return was
	}
	want := convert.Resources(*was)
	if want.GetCpuShares() == now.GetCpuShares() && want.GetCpuQuota() == max(now.GetCpuQuota(), 0) &&
		want.GetMemoryLimitInBytes() == now.GetMemoryLimitInBytes() {
		return was
	}
	out := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	if m, ok := was.Requests[corev1.ResourceMemory]; ok {
		out.Requests[corev1.ResourceMemory] = m
	}
	if s := now.GetCpuShares(); s > cfs.MinShares {
		out.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(
			(s*cfs.Milli+cfs.SharesOfOne-1)/cfs.SharesOfOne, resource.DecimalSI,
		)
	}
	if q := now.GetCpuQuota(); q > 0 && now.GetCpuPeriod() > 0 {
		out.Limits[corev1.ResourceCPU] = *resource.NewMilliQuantity(q*cfs.Milli/now.GetCpuPeriod(), resource.DecimalSI)
	}
	if m := now.GetMemoryLimitInBytes(); m > 0 {
		out.Limits[corev1.ResourceMemory] = *resource.NewQuantity(m, resource.BinarySI)
	}
	return &out
}
