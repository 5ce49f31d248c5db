package convert

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/criconfig"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// Swap is how many bytes a container may swap: of a burstable pod, unless it is critical,
// the share of the host's swap that the container's request is of its memory (kubelet:
// GetContainerSwapBehavior, calcSwapForBurstablePods).
func (n Converter) Swap(pod *corev1.Pod, c *corev1.Container, facts *host.Facts) int64 {
	request, limit := c.Resources.Requests.Memory(), c.Resources.Limits.Memory()
	switch {
	case n.cfg.SwapBehavior != criconfig.LimitedSwap, podQoS(pod) != corev1.PodQOSBurstable, backend.Critical(pod):
		return 0
	case request.Cmp(*limit) == 0, facts.Memory <= 0, request.Value() > facts.Memory:
		return 0
	}
	return int64(float64(request.Value()) / float64(facts.Memory) * float64(facts.Swap))
}
