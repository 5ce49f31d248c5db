package backend

import corev1 "k8s.io/api/core/v1"

// SystemCriticalPriority is from where on pods are critical (kubelet:
// scheduling.SystemCriticalPriority).
const SystemCriticalPriority = 2_000_000_000

// Critical is true for pods that the node spares: static ones, mirrors of those, and those
// of a system's priority (kubelet: IsCriticalPod).
func Critical(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return IsStatic(pod) || mirror || pod.Spec.Priority != nil && *pod.Spec.Priority >= SystemCriticalPriority
}

// IsStatic is true for a pod that did not come from the API server.
func IsStatic(pod *corev1.Pod) bool {
	source, told := pod.Annotations["kubernetes.io/config.source"]
	return told && source != "api"
}
