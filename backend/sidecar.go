package backend

import corev1 "k8s.io/api/core/v1"

// IsSidecar is true for an init container that restarts, and so runs beside the others. That
// it is an init container is the caller's to know (kubelet: IsRestartableInitContainer).
func IsSidecar(init *corev1.Container) bool {
	return init.RestartPolicy != nil && *init.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// HostPorts are the ports of the host that a pod has for its whole life, those of sidecars and
// app containers, with their protocol. Pods on the host's network have them too.
func HostPorts(pod *corev1.Pod) []corev1.ContainerPort {
	var out []corev1.ContainerPort
	take := func(c *corev1.Container) {
		for _, p := range c.Ports {
			if p.HostPort <= 0 {
				continue
			}
			if p.Protocol == "" {
				p.Protocol = corev1.ProtocolTCP
			}
			out = append(out, p)
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; IsSidecar(c) {
			take(c)
		}
	}
	for i := range pod.Spec.Containers {
		take(&pod.Spec.Containers[i])
	}
	return out
}
