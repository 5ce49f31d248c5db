package intask

import (
	"fmt"
	"path/filepath"
	"strings"
)

// hostsHead is how the kubelet begins a pod's /etc/hosts (kubelet_pods.go:
// managedHostsFileContent).
const hostsHead = `# Kubernetes-managed hosts file.
127.0.0.1	localhost
::1	localhost ip6-localhost ip6-loopback
fe00::0	ip6-localnet
fe00::0	ip6-mcastprefix
fe00::1	ip6-allnodes
fe00::2	ip6-allrouters
`

// names are those of a pod: what EnvHostname says.
type names struct{ host, full string }

func namesIn(text string) names {
	host, full, _ := strings.Cut(text, " ")
	return names{host, full}
}

// writeHosts makes /etc/hosts the pod's. The name that the kernel says is not the
// pod's, for it cannot be changed in a task; programs that look it up find it.
func writeHosts(etc string, h Hosts, a addresses, n names, kernel string) error {
	var out strings.Builder
	out.WriteString(hostsHead)
	var own []string
	for _, name := range []string{n.full, n.host} {
		if name != "" {
			own = append(own, name)
		}
	}
	if kernel != "" && kernel != n.host && kernel != "localhost" {
		own = append(own, kernel)
	}
	for _, ip := range a {
		if len(own) > 0 {
			fmt.Fprintf(&out, "%s\t%s\n", ip, strings.Join(own, "\t"))
		}
	}
	if len(h.Aliases) > 0 {
		out.WriteString("\n# Entries added by HostAliases.\n")
	}
	for _, alias := range h.Aliases {
		fmt.Fprintf(&out, "%s\t%s\n", alias.IP, strings.Join(alias.Hostnames, "\t"))
	}
	return rewrite(filepath.Join(etc, "hosts"), func([]byte) ([]byte, error) { return []byte(out.String()), nil })
}
