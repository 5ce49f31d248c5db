package cri

import (
	"cmp"
	"path"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// hostPorts claims the ports of the host that a pod has for its whole life, those of app
// containers and sidecars, for the pod whose logs stand in a directory; nil for none. Pods
// on the host's network have them too.
func hostPorts(pod *corev1.Pod, logDir string) *host.Ports {
	var ports []host.Port
	take := func(c *corev1.Container) {
		for _, p := range c.Ports {
			if p.HostPort > 0 {
				ports = append(ports, host.Port{
					Protocol: string(cmp.Or(p.Protocol, corev1.ProtocolTCP)), IP: p.HostIP, Number: p.HostPort,
				})
			}
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			take(c)
		}
	}
	for i := range pod.Spec.Containers {
		take(&pod.Spec.Containers[i])
	}
	if len(ports) == 0 {
		return nil
	}
	return &host.Ports{Mark: path.Join(logDir, host.LogMark), Ports: ports}
}
