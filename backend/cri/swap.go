package cri

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/criconfig"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// swap is how many bytes a container may swap: of a burstable pod, unless it is critical,
// the share of the host's swap that the container's request is of its memory (kubelet:
// GetContainerSwapBehavior, calcSwapForBurstablePods).
func (r *remote) swap(pod *corev1.Pod, c *corev1.Container, facts *host.Facts) int64 {
	request, limit := c.Resources.Requests.Memory(), c.Resources.Limits.Memory()
	switch {
	case r.cfg.SwapBehavior != criconfig.LimitedSwap, podQoS(pod) != corev1.PodQOSBurstable, backend.Critical(pod):
		return 0
	case request.Cmp(*limit) == 0, facts.Memory <= 0, request.Value() > facts.Memory:
		return 0
	}
	return int64(float64(request.Value()) / float64(facts.Memory) * float64(facts.Swap))
}

// swappable refuses a host that cannot keep containers to their share of its swap.
func (r *remote) swappable(h host.Facts) error {
	if r.cfg.SwapBehavior != criconfig.LimitedSwap || h.CgroupV2 && (h.SwapLimits || h.Swap == 0) {
		return nil
	}
	what := "cgroups of the host are of version 1: boot it with systemd.unified_cgroup_hierarchy=1"
	if h.CgroupV2 {
		what = "the host's kernel does not limit swap: boot it with swapaccount=1"
	}
	return backend.Errorf(backend.ErrUnsupported, "backend.cri.memorySwap.swapBehavior: LimitedSwap: %s, or set NoSwap", what)
}
