package convert

import (
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
)

const (
	// HostsPath is where containers and the host have it.
	HostsPath = "/etc/hosts"
	// HostsFile is in the pod's log directory and goes with it, as messagesDir.
	HostsFile = ".etc-hosts"
)

const (
	// HostsHead begins the file of a pod with a network of its own.
	HostsHead = "# Kubernetes-managed hosts file.\n" +
		"127.0.0.1\tlocalhost\n" +
		"::1\tlocalhost ip6-localhost ip6-loopback\n" +
		"fe00::0\tip6-localnet\n" +
		"fe00::0\tip6-mcastprefix\n" +
		"fe00::1\tip6-allnodes\n" +
		"fe00::2\tip6-allrouters\n"
	hostsHeadHostNetwork = "# Kubernetes-managed hosts file (host network).\n"
)

// ManagesHosts is false for a container that mounts an /etc/hosts of its own.
func ManagesHosts(c *corev1.Container) bool {
	for i := range c.VolumeMounts {
		if c.VolumeMounts[i].MountPath == HostsPath {
			return false
		}
	}
	return true
}

// Hosts are the /etc/hosts of a pod with these addresses, as the kubelet writes it.
func (n Converter) Hosts(pod *corev1.Pod, ips []string) []byte {
	return []byte(HostsHead + ownNames(ips, pod, n.cfg.ClusterDomain) + aliases(pod.Spec.HostAliases))
}

// HostsOnHostNetwork are those of a pod on the network of a host, with the host's own.
func HostsOnHostNetwork(pod *corev1.Pod, own []byte) []byte {
	return []byte(hostsHeadHostNetwork + string(own) + aliases(pod.Spec.HostAliases))
}

// ownNames are the lines of the pod itself.
func ownNames(ips []string, pod *corev1.Pod, domain string) string {
	var b strings.Builder
	for _, ip := range ips {
		if full := fqdn(pod, domain); full != "" {
			fmt.Fprintf(&b, "%s\t%s\t%s\n", ip, full, shortName(pod))
		} else {
			fmt.Fprintf(&b, "%s\t%s\n", ip, shortName(pod))
		}
	}
	return b.String()
}

func aliases(all []corev1.HostAlias) string {
	if len(all) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n# Entries added by HostAliases.\n")
	for _, a := range all {
		fmt.Fprintf(&b, "%s\t%s\n", a.IP, strings.Join(a.Hostnames, "\t"))
	}
	return b.String()
}

// HostsMount is the mount of the pod's hosts file.
func (n Converter) HostsMount(spec backend.ContainerSpec) *runtimeapi.Mount {
	return &runtimeapi.Mount{
		ContainerPath: HostsPath, HostPath: path.Join(n.LogDir(PodRef(spec.Pod)), HostsFile), SelinuxRelabel: true,
		Readonly: isReadOnly(spec.Container.SecurityContext),
	}
}
