package cri

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/burstlet/burstlet/backend/cri/sshlink"
)

// Cgroup drivers, as the kubelet names them.
const (
	CgroupDriverAuto     = ""
	CgroupDriverCgroupfs = "cgroupfs"
	CgroupDriverSystemd  = "systemd"
)

// Config says which container runtime to use and what the pods' host looks like.
type Config struct {
	// Endpoint is the runtime's socket on this machine, as in
	// "unix:///run/containerd/containerd.sock", or the host where it is:
	// "ssh://user@host:port".
	Endpoint string
	// RuntimeSocket is the path of the runtime's socket on a host reached over SSH;
	// default /run/containerd/containerd.sock.
	RuntimeSocket string
	// SSH says how such a host is reached; nil with a local socket.
	SSH *SSH
	// NodeIdentity tells this node's objects from those of others on the same
	// runtime. It stands in the label burstlet.dev/node of every sandbox and
	// container and must never change while pods run.
	NodeIdentity string
	// PodsDir holds what pods have on the host, their volumes above all; default
	// /var/lib/burstlet/pods.
	PodsDir string
	// SeccompProfileRoot holds the profiles that pods name as localhostProfile;
	// default the kubelet's, /var/lib/kubelet/seccomp.
	SeccompProfileRoot string
	// ContainerLogMaxSize and ContainerLogMaxFiles bound the logs of a container, in
	// bytes and files; default the kubelet's, 10 MiB and 5.
	ContainerLogMaxSize  int64
	ContainerLogMaxFiles int
	// PodPidsLimit is the most processes of a pod; 0 is no limit.
	PodPidsLimit int64
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

// SSH says how a host is reached.
type SSH struct {
	// KeyFiles hold private keys; Agent is the socket of an SSH agent. One of them
	// is needed.
	KeyFiles []string
	Agent    string
	// KnownHostsFile holds the keys of the host and of the jump hosts. It is needed
	// unless InsecureIgnoreHostKey is set.
	KnownHostsFile        string
	InsecureIgnoreHostKey bool
	// JumpHosts are passed on the way, in order: user@host:port.
	JumpHosts []string
	// Keepalive is the pause between signs of life; default 5 s. KeepaliveMax of
	// them without an answer end a connection; default 3.
	Keepalive    time.Duration
	KeepaliveMax int
	// Helper is the binary that does the host operations, by GOARCH.
	Helper func(goarch string) ([]byte, error)
}

// The kubelet's defaults for logs.
const (
	defaultLogSize  = 10 << 20
	defaultLogFiles = 5
)

// maxIdentity is well below containerd's limit of 4096 for key and value.
const maxIdentity = 512

func unprintable(r rune) bool { return r <= ' ' || r > '~' }

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		field *string
		value string
	}{
		{&c.RuntimeSocket, "/run/containerd/containerd.sock"},
		{&c.PodsDir, "/var/lib/burstlet/pods"},
		{&c.SeccompProfileRoot, "/var/lib/kubelet/seccomp"},
		{&c.PodLogsDir, "/var/log/pods"},
		{&c.ContainerLogsDir, "/var/log/containers"},
		{&c.CgroupParent, "burstlet"},
		{&c.ResolvConf, "/etc/resolv.conf"},
	} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	if c.ContainerLogMaxSize == 0 {
		c.ContainerLogMaxSize = defaultLogSize
	}
	if c.ContainerLogMaxFiles == 0 {
		c.ContainerLogMaxFiles = defaultLogFiles
	}
	return c
}

// Validate returns an error that names the field, as it is called in the
// configuration file, and says what it should be.
func (c Config) Validate() error {
	if err := c.validateEndpoint(); err != nil {
		return err
	}
	if c.NodeIdentity == "" {
		return fmt.Errorf("nodeIdentity: must be set: it tells this node's containers from those of others")
	}
	if len(c.NodeIdentity) > maxIdentity || strings.ContainsFunc(c.NodeIdentity, unprintable) {
		return fmt.Errorf("nodeIdentity: must be at most %d printable ASCII characters", maxIdentity)
	}
	for _, p := range []struct{ field, path string }{
		{"runtimeSocket", c.RuntimeSocket},
		{"podsDir", c.PodsDir},
		{"seccompProfileRoot", c.SeccompProfileRoot},
		{"podLogsDir", c.PodLogsDir},
		{"containerLogsDir", c.ContainerLogsDir},
		{"resolvConf", c.ResolvConf},
	} {
		if p.path != "" && !filepath.IsAbs(p.path) {
			return fmt.Errorf("%s: %q is not an absolute path", p.field, p.path)
		}
	}
	switch {
	case c.ContainerLogMaxSize < 0:
		return fmt.Errorf("containerLogMaxSize: must be positive")
	case c.ContainerLogMaxFiles < 0 || c.ContainerLogMaxFiles == 1:
		return fmt.Errorf("containerLogMaxFiles: must be at least 2")
	case c.PodPidsLimit < 0:
		return fmt.Errorf("podPidsLimit: must not be negative; 0 is no limit")
	}
	return c.validateCgroupAndDNS()
}

// remote is true for a host that is reached over SSH.
func (c Config) remote() bool { return strings.HasPrefix(c.Endpoint, "ssh://") }

func (c Config) validateEndpoint() error {
	if !c.remote() {
		if _, err := socketPath(c.Endpoint); err != nil {
			return fmt.Errorf("endpoint: %w", err)
		}
		if c.SSH != nil {
			return fmt.Errorf("ssh: must be left out where endpoint is a local socket")
		}
		return nil
	}
	if c.SSH == nil {
		return fmt.Errorf("ssh: must say how %s is reached: give ssh.keyFiles or ssh.agent, and ssh.knownHostsFile", c.Endpoint)
	}
	_, err := c.Link()
	return err
}

// Link is how a host over SSH is reached. Errors name the field.
func (c Config) Link() (sshlink.Config, error) {
	hop, err := sshlink.ParseEndpoint(c.Endpoint)
	if err != nil {
		return sshlink.Config{}, fmt.Errorf("endpoint: %w", err)
	}
	cfg := sshlink.Config{
		User: hop.User, Address: hop.Address, KeyFiles: c.SSH.KeyFiles, Agent: c.SSH.Agent,
		KnownHostsFile: c.SSH.KnownHostsFile, InsecureIgnoreHostKey: c.SSH.InsecureIgnoreHostKey,
		Keepalive: c.SSH.Keepalive, KeepaliveMax: c.SSH.KeepaliveMax, Helper: c.SSH.Helper,
		HelperArgs: []string{"--root", c.withDefaults().PodsDir},
	}
	for i, jump := range c.SSH.JumpHosts {
		hop, err := sshlink.ParseEndpoint("ssh://" + jump)
		if err != nil {
			return sshlink.Config{}, fmt.Errorf("ssh.jumpHosts[%d]: %w", i, err)
		}
		cfg.Jumps = append(cfg.Jumps, hop)
	}
	return cfg, cfg.Validate()
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
		return "", fmt.Errorf("%q is not a socket: use unix:// and an absolute path, as in unix:///run/containerd/containerd.sock, or ssh://user@host for a host reached over SSH", endpoint)
	}
	return path, nil
}
