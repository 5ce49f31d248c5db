package convert

import (
	"path"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// HostPorts claims the ports of the host that a pod has, for the pod whose logs stand in a
// directory; nil for none.
func HostPorts(pod *corev1.Pod, logDir string) *host.Ports {
	var ports []host.Port
	for _, p := range backend.HostPorts(pod) {
		ports = append(ports, host.Port{Protocol: string(p.Protocol), IP: p.HostIP, Number: p.HostPort})
	}
	if len(ports) == 0 {
		return nil
	}
	return &host.Ports{Mark: path.Join(logDir, host.LogMark), Ports: ports}
}
