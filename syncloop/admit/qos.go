package admit

import corev1 "k8s.io/api/core/v1"

// QOS is the class of a pod, as the API server has set it; without its word, BestEffort for
// one that asks for neither cpu nor memory, else Burstable.
func QOS(pod *corev1.Pod) corev1.PodQOSClass {
	if class := pod.Status.QOSClass; class != "" {
		return class
	}
	asks := func(r corev1.ResourceRequirements) bool {
		for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
			if !list.Cpu().IsZero() || !list.Memory().IsZero() {
				return true
			}
		}
		return false
	}
	if r := pod.Spec.Resources; r != nil && asks(*r) {
		return corev1.PodQOSBurstable
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if asks(containers[i].Resources) {
				return corev1.PodQOSBurstable
			}
		}
	}
	return corev1.PodQOSBestEffort
}
