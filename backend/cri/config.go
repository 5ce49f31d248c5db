package cri

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Cgroup drivers, as the kubelet names them.
const (
	CgroupDriverAuto     = ""
	CgroupDriverCgroupfs = "cgroupfs"
	CgroupDriverSystemd  = "systemd"
)

// Config says which container runtime to use and what the pods' host looks like.
type Config struct {
	// Endpoint is the runtime's socket: "unix:///run/containerd/containerd.sock".
	Endpoint string
	// NodeIdentity tells this node's objects from those of others on the same
	// runtime. It stands in the label burstlet.dev/node of every sandbox and
	// container and must never change while pods run.
	NodeIdentity string
	// PodLogsDir holds the log files; default /var/log/pods.
	PodLogsDir string
	// ContainerLogsDir holds the links that log collectors read; default
	// /var/log/containers.
	ContainerLogsDir string
	// CgroupParent is the name of the cgroup above all pods; default "burstlet".
	CgroupParent string
	// CgroupDriver is "cgroupfs" or "systemd"; empty: as the runtime says.
	CgroupDriver string
	// ClusterDNS are the name servers of dnsPolicy ClusterFirst. Without them
	// such pods get the host's, as a kubelet without clusterDNS gives them.
	ClusterDNS []string
	// ClusterDomain is the cluster's DNS domain, as in "cluster.local".
	ClusterDomain string
	// ResolvConf is the host's resolver configuration; default
	// /etc/resolv.conf.
	ResolvConf string
}

// maxIdentity is well below containerd's limit of 4096 for key and value.
const maxIdentity = 512

func unprintable(r rune) bool { return r <= ' ' || r > '~' }

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		field *string
		value string
	}{
		{&c.PodLogsDir, "/var/log/pods"},
		{&c.ContainerLogsDir, "/var/log/containers"},
		{&c.CgroupParent, "burstlet"},
		{&c.ResolvConf, "/etc/resolv.conf"},
	} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	return c
}

// Validate returns an error that names the field, as it is called in the
// configuration file, and says what it should be.
func (c Config) Validate() error {
	if _, err := socketPath(c.Endpoint); err != nil {
		return fmt.Errorf("endpoint: %w", err)
	}
	if c.NodeIdentity == "" {
		return fmt.Errorf("nodeIdentity: must be set: it tells this node's containers from those of others")
	}
	if len(c.NodeIdentity) > maxIdentity || strings.ContainsFunc(c.NodeIdentity, unprintable) {
		return fmt.Errorf("nodeIdentity: must be at most %d printable ASCII characters", maxIdentity)
	}
	for _, p := range []struct{ field, path string }{
		{"podLogsDir", c.PodLogsDir},
		{"containerLogsDir", c.ContainerLogsDir},
		{"resolvConf", c.ResolvConf},
	} {
		if p.path != "" && !filepath.IsAbs(p.path) {
			return fmt.Errorf("%s: %q is not an absolute path", p.field, p.path)
		}
	}
	return c.validateCgroupAndDNS()
}

func (c Config) validateCgroupAndDNS() error {
	if c.CgroupParent != "" {
		if msgs := validation.IsDNS1123Label(c.CgroupParent); len(msgs) > 0 {
			return fmt.Errorf("cgroupParent: %q must be one name without slashes: %s", c.CgroupParent, strings.Join(msgs, "; "))
		}
	}
	switch c.CgroupDriver {
	case CgroupDriverAuto, CgroupDriverCgroupfs, CgroupDriverSystemd:
	default:
		return fmt.Errorf("cgroupDriver: %q is not one of cgroupfs, systemd, or empty to ask the runtime", c.CgroupDriver)
	}
	for i, s := range c.ClusterDNS {
		if _, err := netip.ParseAddr(s); err != nil {
			return fmt.Errorf("clusterDNS[%d]: %q is not an IP address", i, s)
		}
	}
	if c.ClusterDomain != "" {
		if msgs := validation.IsDNS1123Subdomain(strings.TrimSuffix(c.ClusterDomain, ".")); len(msgs) > 0 {
			return fmt.Errorf("clusterDomain: %q: %s", c.ClusterDomain, strings.Join(msgs, "; "))
		}
	}
	return nil
}

// socketPath is the path of a unix:// endpoint.
func socketPath(endpoint string) (string, error) {
	path, ok := strings.CutPrefix(endpoint, "unix://")
	if !ok || !filepath.IsAbs(path) {
		return "", fmt.Errorf("%q is not a socket: use unix:// and an absolute path, as in unix:///run/containerd/containerd.sock", endpoint)
	}
	return path, nil
}
