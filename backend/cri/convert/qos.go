package convert

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/burstlet/burstlet/backend"
)

const (
	// The kubelet's OOM scores (pkg/kubelet/qos).
	guaranteedOOMScore = -997
	bestEffortOOMScore = 1000

	nodeCriticalClass = "system-node-critical"
)

// podQoS is the pod's quality of service class: as the API says, else derived
// as the API server does it.
func podQoS(pod *corev1.Pod) corev1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	guaranteed, bestEffort := true, true
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				request, limit := list[i].Resources.Requests[name], list[i].Resources.Limits[name]
				if !request.IsZero() || !limit.IsZero() {
					bestEffort = false
				}
				if limit.IsZero() || (!request.IsZero() && request.Cmp(limit) != 0) {
					guaranteed = false
				}
			}
		}
	}
	switch {
	case bestEffort:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	default:
		return corev1.PodQOSBurstable
	}
}

// oomScore is the kubelet's policy: the more of the host's memory a burstable
// container asks for, the later it is killed. memory is the host's, in bytes.
func oomScore(pod *corev1.Pod, c *corev1.Container, memory int64) int64 {
	if pod.Spec.PriorityClassName == nodeCriticalClass {
		return guaranteedOOMScore
	}
	switch podQoS(pod) {
	case corev1.PodQOSGuaranteed:
		return guaranteedOOMScore
	case corev1.PodQOSBestEffort:
		return bestEffortOOMScore
	}
	request := c.Resources.Requests.Memory().Value()
	score := int64(bestEffortOOMScore)
	if memory > 0 {
		score -= int64(float64(request) / float64(memory) * 1000)
	}
	// Between guaranteed and best-effort pods, whatever it asks for.
	return min(max(score, 1000+guaranteedOOMScore), bestEffortOOMScore-1)
}

// podResources is what the pod needs as a whole, with its sidecars and overhead
// (kubelet: ResourceConfigForPod). A limit holds only if the pod has one itself or
// every container does.
func podResources(pod *corev1.Pod) corev1.ResourceRequirements {
	bounded := map[corev1.ResourceName]bool{corev1.ResourceCPU: true, corev1.ResourceMemory: true}
	limits := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{
		ContainerFn: func(list corev1.ResourceList, _ resourcehelper.ContainerType) {
			for name := range bounded {
				if q := list[name]; q.IsZero() {
					bounded[name] = false
				}
			}
		},
	})
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	out := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	for name, all := range bounded {
		if q, ok := requests[name]; ok && !q.IsZero() {
			out.Requests[name] = q
		}
		if own := backend.PodLimit(pod, name); !own.IsZero() || all {
			out.Limits[name] = limits[name]
		}
	}
	return out
}
