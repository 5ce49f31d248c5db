// Package resolvconf makes the resolver configuration of a pod as a kubelet does. It is
// pure, and imports nothing of the project.
package resolvconf

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The kubelet's limits (pkg/apis/core/validation); what is beyond is left out.
const (
	maxNameservers    = 3
	maxSearchPaths    = 32
	maxSearchChars    = 2048
	maxSearchPathName = 253
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
	dns := parseResolvConf(hostConf)
	policy := pod.Spec.DNSPolicy
	cluster := policy == corev1.DNSClusterFirstWithHostNet ||
		(policy != corev1.DNSDefault && policy != corev1.DNSNone && !pod.Spec.HostNetwork)
	switch {
	case policy == corev1.DNSNone:
		dns = &runtimeapi.DNSConfig{}
	case cluster && len(c.Servers) > 0:
		dns.Servers = slices.Clone(c.Servers)
		dns.Options = []string{"ndots:5"}
		if domain := strings.TrimSuffix(c.Domain, "."); domain != "" {
			dns.Searches = append([]string{pod.Namespace + ".svc." + domain, "svc." + domain, domain}, dns.Searches...)
		}
	}
	if own := pod.Spec.DNSConfig; own != nil {
		dns.Servers = append(dns.Servers, own.Nameservers...)
		dns.Searches = append(dns.Searches, own.Searches...)
		for _, o := range own.Options {
			option := o.Name
			if o.Value != nil && *o.Value != "" {
				option += ":" + *o.Value
			}
			dns.Options = setOption(dns.Options, option)
		}
	}
	return fitDNS(dns)
}

// parseResolvConf reads resolv.conf(5): name servers add up, the last search
// line wins, a later option replaces an earlier one of its name.
func parseResolvConf(conf []byte) *runtimeapi.DNSConfig {
	dns := &runtimeapi.DNSConfig{}
	for line := range strings.Lines(string(conf)) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			dns.Servers = append(dns.Servers, fields[1:min(len(fields), 2)]...)
		case "search":
			dns.Searches = nil
			for _, s := range fields[1:] {
				if s != "." {
					dns.Searches = append(dns.Searches, strings.TrimSuffix(s, "."))
				}
			}
		case "options":
			for _, o := range fields[1:] {
				dns.Options = setOption(dns.Options, o)
			}
		}
	}
	return dns
}

// setOption replaces the option of the same name, or appends it.
func setOption(options []string, option string) []string {
	name, _, _ := strings.Cut(option, ":")
	same := func(o string) bool { n, _, _ := strings.Cut(o, ":"); return n == name }
	if i := slices.IndexFunc(options, same); i >= 0 {
		options[i] = option
		return options
	}
	return append(options, option)
}

func fitDNS(dns *runtimeapi.DNSConfig) *runtimeapi.DNSConfig {
	dns.Servers = distinct(dns.Servers)
	dns.Servers = dns.Servers[:min(len(dns.Servers), maxNameservers)]
	dns.Searches = distinct(dns.Searches)
	dns.Searches = dns.Searches[:min(len(dns.Searches), maxSearchPaths)]
	dns.Searches = slices.DeleteFunc(dns.Searches, func(s string) bool { return len(s) > maxSearchPathName })
	for len(strings.Join(dns.Searches, " ")) > maxSearchChars {
		dns.Searches = dns.Searches[:len(dns.Searches)-1]
	}
	return dns
}

// distinct keeps the first of each.
func distinct(in []string) []string {
	var out []string
	for _, s := range in {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
