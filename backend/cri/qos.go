package cri

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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

// podResources is what the pod needs as a whole: the sum of its containers, or
// its largest init container. A limit holds only if every container has one.
func podResources(pod *corev1.Pod) corev1.ResourceRequirements {
	sum := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q := total(pod, func(c *corev1.Container) resource.Quantity { return c.Resources.Requests[name] }); !q.IsZero() {
			sum.Requests[name] = q
		}
		limit := func(c *corev1.Container) resource.Quantity { return c.Resources.Limits[name] }
		if allSet(pod, limit) {
			sum.Limits[name] = total(pod, limit)
		}
	}
	return sum
}

func total(pod *corev1.Pod, of func(*corev1.Container) resource.Quantity) resource.Quantity {
	var sum resource.Quantity
	for i := range pod.Spec.Containers {
		sum.Add(of(&pod.Spec.Containers[i]))
	}
	for i := range pod.Spec.InitContainers {
		if q := of(&pod.Spec.InitContainers[i]); q.Cmp(sum) > 0 {
			sum = q
		}
	}
	return sum
}

func allSet(pod *corev1.Pod, of func(*corev1.Container) resource.Quantity) bool {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if q := of(&list[i]); q.IsZero() {
				return false
			}
		}
	}
	return len(pod.Spec.Containers) > 0
}
