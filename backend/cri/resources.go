package cri

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// The kernel's bounds and the kubelet's period (pkg/kubelet/cm).
const (
	minShares    = 2
	maxShares    = 262144
	sharesPerCPU = 1024
	quotaPeriod  = 100000 // microseconds
	minQuota     = 1000   // microseconds
	milliCPUs    = 1000
)

// linuxResources turns requests and limits into what the kernel enforces, as
// the kubelet does. Without a CPU request the limit stands for it.
func linuxResources(res corev1.ResourceRequirements) *runtimeapi.LinuxContainerResources {
	request, ok := res.Requests[corev1.ResourceCPU]
	if !ok {
		request = res.Limits[corev1.ResourceCPU]
	}
	limit := res.Limits[corev1.ResourceCPU]
	return &runtimeapi.LinuxContainerResources{
		CpuShares:          shares(request.MilliValue()),
		CpuPeriod:          quotaPeriod,
		CpuQuota:           quota(limit.MilliValue()),
		MemoryLimitInBytes: res.Limits.Memory().Value(),
	}
}

// enforcedOn adds what depends on the host to a container's resources. On cgroup v2 the
// kernel kills all processes of a container that runs out of memory: else the child of
// a shell could die, and the container go on or end well (kubelet:
// singleProcessOOMKill is false there). swap is what the container may swap there, in bytes;
// elsewhere none does.
func enforcedOn(facts *host.Facts, r *runtimeapi.LinuxContainerResources, swap int64) *runtimeapi.LinuxContainerResources {
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

func shares(milli int64) int64 {
	return min(max(milli*sharesPerCPU/milliCPUs, minShares), maxShares)
}

// quota is the CPU time per period in microseconds; 0 is no limit.
func quota(milli int64) int64 {
	if milli == 0 {
		return 0
	}
	return max(milli*quotaPeriod/milliCPUs, minQuota)
}
