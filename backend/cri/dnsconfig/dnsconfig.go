// Package dnsconfig makes the DNSConfig of a pod's sandbox as a kubelet does. It is pure.
package dnsconfig

import (
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend/resolvconf"
)

// Cluster is the DNS of the cluster.
type Cluster struct {
	// Servers are the addresses of its name servers; without them pods of dnsPolicy
	// ClusterFirst get the host's.
	Servers []string
	// Domain is its domain, as in "cluster.local".
	Domain string
}

// Of is the pod's resolver configuration: its dnsPolicy applied to the host's
// resolv.conf, and its dnsConfig on top.
func Of(pod *corev1.Pod, c Cluster, hostConf []byte) *runtimeapi.DNSConfig {
	conf := resolvconf.Parse(string(hostConf))
	policy := pod.Spec.DNSPolicy
	cluster := policy == corev1.DNSClusterFirstWithHostNet ||
		(policy != corev1.DNSDefault && policy != corev1.DNSNone && !pod.Spec.HostNetwork)
	switch {
	case policy == corev1.DNSNone:
		conf = resolvconf.Config{}
	case cluster && len(c.Servers) > 0:
		conf = conf.ForCluster(c.Servers, resolvconf.ClusterSearches(pod.Namespace, c.Domain))
	}
	var own resolvconf.Config
	if d := pod.Spec.DNSConfig; d != nil {
		own.Servers, own.Searches = d.Nameservers, d.Searches
		for _, o := range d.Options {
			own.Options = append(own.Options, resolvconf.Option(o.Name, o.Value))
		}
	}
	conf = conf.With(own)
	return &runtimeapi.DNSConfig{Servers: conf.Servers, Searches: conf.Searches, Options: conf.Options}
}
