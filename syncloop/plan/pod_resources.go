package plan

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// podResources fills in what the whole pod is allocated: what it asks for itself, or the
// sum of its containers. While it runs that is what its cgroup is held to, cpu and memory:
// as told before until a resize has reached it (kubelet: convertToAPIPodLevelResourcesStatus,
// getEffectiveAllocatedResources).
func (v view) podResources(s *corev1.PodStatus) {
	requests := resourcehelper.PodRequests(v.Pod, resourcehelper.PodResourcesOptions{})
	own := v.Pod.Spec.Resources
	if own == nil {
		own = &corev1.ResourceRequirements{}
	}
	unlimited := map[corev1.ResourceName]bool{}
	limits := resourcehelper.PodLimits(v.Pod, resourcehelper.PodResourcesOptions{
		ContainerFn: func(l corev1.ResourceList, _ resourcehelper.ContainerType) {
			for _, name := range ofCgroup {
				unlimited[name] = unlimited[name] || l.Name(name, "").IsZero()
			}
		},
	})
	s.AllocatedResources = requests
	s.Resources = &corev1.ResourceRequirements{Requests: requests, Limits: limits, Claims: own.Claims}
	if s.Phase != corev1.PodRunning {
		return
	}
	if told := &v.Memory.Status; v.Memory.PodLags && told.Phase == corev1.PodRunning && told.Resources != nil {
		s.Resources = told.Resources
		return
	}
	s.Resources.Requests, s.Resources.Limits = corev1.ResourceList{}, corev1.ResourceList{}
	for _, name := range ofCgroup {
		if q, asked := requests[name]; asked {
			s.Resources.Requests[name] = q
		}
		q, limited := limits[name]
		if _, whole := own.Limits[name]; limited && (whole || !unlimited[name]) {
			s.Resources.Limits[name] = q
		}
	}
}

// ofCgroup is what a pod's cgroup knows of.
var ofCgroup = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
