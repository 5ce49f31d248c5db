package provider

import "strings"

// kubernetesVersion is the version of Kubernetes whose kubelet this node
// behaves as: that of the k8s.io libraries it is built with.
const kubernetesVersion = "v1.36.3"

// KubeletVersion is what a Node shows as its kubelet's version: the Kubernetes
// version that tools compare, with this program's version as build metadata,
// which semantic versions ignore in comparisons ("v1.36.3+burstlet-0.1.0").
func KubeletVersion(program string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r == '.', r == '-':
			return r
		case r == '+', r == '_':
			return '-'
		default:
			return -1
		}
	}, strings.TrimPrefix(program, "v"))
	clean = strings.Trim(clean, ".-")
	if clean == "" {
		clean = "devel"
	}
	return kubernetesVersion + "+burstlet-" + clean
}
