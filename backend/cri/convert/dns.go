package convert

import (
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend/cri/dnsconfig"
)

// DNS is the pod's resolver configuration, made of the host's.
func (n Converter) DNS(pod *corev1.Pod, hostConf []byte) *runtimeapi.DNSConfig {
	return dnsconfig.Of(pod, dnsconfig.Cluster{Servers: n.cfg.ClusterDNS, Domain: n.cfg.ClusterDomain}, hostConf)
}
