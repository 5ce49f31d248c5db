package convert

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend/cfs"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// Resources turns requests and limits into what the kernel enforces, as
// the kubelet does. Without a CPU request the limit stands for it.
func Resources(res corev1.ResourceRequirements) *runtimeapi.LinuxContainerResources {
	request, ok := res.Requests[corev1.ResourceCPU]
	if !ok {
		request = res.Limits[corev1.ResourceCPU]
	}
	limit := res.Limits[corev1.ResourceCPU]
	return &runtimeapi.LinuxContainerResources{
		CpuShares:          cfs.Shares(request.MilliValue()),
		CpuPeriod:          cfs.Period,
		CpuQuota:           cfs.Quota(limit.MilliValue()),
		MemoryLimitInBytes: res.Limits.Memory().Value(),
	}
}

// EnforcedOn adds what depends on the host to a container's resources. On cgroup v2 the
// kernel kills all processes of a container that runs out of memory: else the child of
// a shell could die, and the container go on or end well (kubelet:
// singleProcessOOMKill is false there). swap is what the container may swap there, in bytes;
// elsewhere none does.
func EnforcedOn(
	facts *host.Facts, r *runtimeapi.LinuxContainerResources, swap int64,
) *runtimeapi.LinuxContainerResources {
	switch {
	case facts.CgroupV2:
		r.Unified = map[string]string{"memory.oom.group": "1"}
		if facts.SwapLimits {
			r.Unified["memory.swap.max"] = strconv.FormatInt(swap, 10)
		}
	case facts.SwapLimits:
		// Memory and swap together. Without a limit of memory it says nothing.
		r.MemorySwapLimitInBytes = r.MemoryLimitInBytes
	}
	return r
}

// Enforced is what of a container's resources is held to: cpu and memory.
func Enforced(r corev1.ResourceRequirements) corev1.ResourceRequirements {
	keep := func(list corev1.ResourceList) corev1.ResourceList {
		var out corev1.ResourceList
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if q, ok := list[name]; ok {
				if out == nil {
					out = corev1.ResourceList{}
				}
				out[name] = q
			}
		}
		return out
	}
	return corev1.ResourceRequirements{Requests: keep(r.Requests), Limits: keep(r.Limits)}
}
