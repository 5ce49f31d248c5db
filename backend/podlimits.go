package backend

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// PodLimit is a limit that the pod sets for all its containers together
// (spec.resources.limits); zero without one.
func PodLimit(pod *corev1.Pod, name corev1.ResourceName) resource.Quantity {
	if pod.Spec.Resources == nil {
		return resource.Quantity{}
	}
	return pod.Spec.Resources.Limits[name]
}

// WithPodLimits gives a container without a limit that of its pod, which is then
// what it is held to, and what the kernel tells it (kubelet: GetLimits in
// pkg/kubelet/util). It returns own itself where the pod's limits change nothing.
func WithPodLimits(pod *corev1.Pod, own *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	out := own
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		has, limit := own.Limits[name], PodLimit(pod, name)
		if !has.IsZero() || limit.IsZero() {
			continue
		}
		if out == own {
			out = &corev1.ResourceRequirements{
				Requests: maps.Clone(own.Requests), Limits: maps.Clone(own.Limits), Claims: own.Claims,
			}
		}
		if out.Limits == nil {
			out.Limits = corev1.ResourceList{}
		}
		out.Limits[name] = limit
		if _, asked := own.Requests[name]; !asked && name == corev1.ResourceCPU {
			// A limit stands for a request that is missing: this one does not.
			if out.Requests == nil {
				out.Requests = corev1.ResourceList{}
			}
			out.Requests[name] = resource.Quantity{}
		}
	}
	return out
}
