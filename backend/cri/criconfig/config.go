package criconfig

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Cgroup drivers, as the kubelet names them.
const (
	CgroupDriverAuto     = ""
	CgroupDriverCgroupfs = "cgroupfs"
	CgroupDriverSystemd  = "systemd"
)

// CgroupDrivers returns the drivers that a configuration may name.
func CgroupDrivers() []string { return []string{CgroupDriverCgroupfs, CgroupDriverSystemd} }

// What containers may swap, in the kubelet's words; empty is NoSwap.
const (
	NoSwap      = "NoSwap"
	LimitedSwap = "LimitedSwap"
)

// SwapBehaviors returns those that a configuration may name.
func SwapBehaviors() []string { return []string{NoSwap, LimitedSwap} }

// ReservedPIDs is the key of processes among reserved resources (kubelet: pidlimit.PIDs).
const ReservedPIDs corev1.ResourceName = "pid"

// MinLogFiles is the least number of files of a container's log: one that is written, one
// that was.
const MinLogFiles = 2

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
	// Bounded is true of a node that is told what part of its host it offers: without, it
	// offers all.
	Bounded bool
	// Leader names the leader of the node whose changes these are, among all that there
	// ever are: the host makes those of the last one alone. Empty: there is no election.
	Leader string
	// PodsDir holds what pods have on the host, their volumes above all; default
	// /var/lib/burstlet/pods.
	PodsDir string
	// SeccompProfileRoot holds the profiles that pods name as localhostProfile;
	// default the kubelet's, /var/lib/kubelet/seccomp.
	SeccompProfileRoot string
	// SeccompDefault gives containers without a profile that of the runtime.
	SeccompDefault bool
	// ContainerLogMaxSize and ContainerLogMaxFiles bound the logs of a container, in
	// bytes and files; default the kubelet's, 10 MiB and 5.
	ContainerLogMaxSize  int64
	ContainerLogMaxFiles int
	// PodPidsLimit is the most processes of a pod; 0 is no limit.
	PodPidsLimit int64
	// SwapBehavior is what containers may swap; empty is NoSwap.
	SwapBehavior string
	// Reserved is what of the host pods may not use: cpu, memory, ephemeral-storage and
	// pid, which is how the kubelet calls processes.
	Reserved corev1.ResourceList
	// Unprivileged refuses privileged containers and what amounts to one.
	Unprivileged bool
	// HostPaths are what pods may mount of the host; nil is everything.
	HostPaths []HostPath
	// ShutdownDelay is how long the host must be able to wait for its pods before it shuts
	// down; 0: nobody looks whether it does.
	ShutdownDelay time.Duration
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

// The kubelet's defaults for logs.
const (
	defaultLogSize  = 10 << 20
	defaultLogFiles = 5
)

// maxIdentity is well below containerd's limit of 4096 for key and value.
const maxIdentity = 512

func unprintable(r rune) bool { return r <= ' ' || r > '~' }

// WithDefaults returns the configuration with what is empty filled in.
func (c Config) WithDefaults() Config {
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

// Remote is true for a host that is reached over SSH.
func (c Config) Remote() bool { return strings.HasPrefix(c.Endpoint, SSHScheme) }

// Validate returns what is wrong, by the names of the fields in the configuration file.
func (c Config) Validate() error {
	errs := c.Errors(nil)
	if c.NodeIdentity == "" {
		errs = append(errs,
			field.Required(field.NewPath("nodeIdentity"), "it tells this node's containers from those of others"))
	}
	if len(c.NodeIdentity) > maxIdentity || strings.ContainsFunc(c.NodeIdentity, unprintable) {
		errs = append(errs, field.Invalid(field.NewPath("nodeIdentity"), c.NodeIdentity,
			fmt.Sprintf("must be at most %d printable ASCII characters", maxIdentity)))
	}
	errs = append(errs, c.dnsErrors()...)
	errs = append(errs, HostPathErrors(field.NewPath("pods", "hostPaths"), c.HostPaths)...)
	joined := make([]error, len(errs))
	for i, err := range errs {
		joined[i] = err
	}
	return errors.Join(joined...)
}

// Errors returns what is wrong with the fields of backend.cri in a file; at is where they
// stand. What is empty or 0 is the default.
func (c Config) Errors(at *field.Path) field.ErrorList {
	errs := c.endpointErrors(at)
	for _, dir := range []struct{ name, path string }{
		{"runtimeSocket", c.RuntimeSocket},
		{"podsDir", c.PodsDir},
		{"seccompProfileRoot", c.SeccompProfileRoot},
		{"podLogsDir", c.PodLogsDir},
		{"containerLogsDir", c.ContainerLogsDir},
		{"resolvConf", c.ResolvConf},
	} {
		if p := dir.path; p != "" && (!filepath.IsAbs(p) || filepath.Clean(p) != p || p == "/") {
			errs = append(errs, field.Invalid(at.Child(dir.name), p, "must be an absolute path"))
		}
	}
	if c.ContainerLogMaxSize < 0 {
		errs = append(errs, field.Invalid(at.Child("containerLogMaxSize"), c.ContainerLogMaxSize, "must be positive"))
	}
	if n := c.ContainerLogMaxFiles; n != 0 && n < MinLogFiles {
		errs = append(errs,
			field.Invalid(at.Child("containerLogMaxFiles"), n, fmt.Sprintf("must be at least %d", MinLogFiles)))
	}
	if c.PodPidsLimit < 0 {
		errs = append(errs, field.Invalid(at.Child("podPidsLimit"), c.PodPidsLimit, "must not be negative; 0 is no limit"))
	}
	if c.CgroupParent != "" {
		for _, why := range validation.IsDNS1123Label(c.CgroupParent) {
			errs = append(errs, field.Invalid(at.Child("cgroupParent"), c.CgroupParent, why))
		}
	}
	return append(errs, c.wordErrors(at)...)
}

// wordErrors judges fields that are one of a few words, or empty.
func (c Config) wordErrors(at *field.Path) (errs field.ErrorList) {
	if d := c.CgroupDriver; d != CgroupDriverAuto && !slices.Contains(CgroupDrivers(), d) {
		errs = append(errs, field.NotSupported(at.Child("cgroupDriver"), d, CgroupDrivers()))
	}
	if b := c.SwapBehavior; b != "" && !slices.Contains(SwapBehaviors(), b) {
		errs = append(errs, field.NotSupported(at.Child("memorySwap", "swapBehavior"), b, SwapBehaviors()))
	}
	return errs
}

func (c Config) endpointErrors(at *field.Path) field.ErrorList {
	if c.Remote() {
		errs := hopErrors(at.Child("endpoint"), c.Endpoint, c.Endpoint)
		if c.SSH == nil {
			return append(errs,
				field.Required(at.Child("ssh"), "how the host is reached: keyFiles or agent, and knownHostsFile"))
		}
		return append(errs, c.SSH.Errors(at.Child("ssh"))...)
	}
	var errs field.ErrorList
	if _, ok := c.Socket(); !ok {
		errs = append(errs, field.Invalid(at.Child("endpoint"), c.Endpoint,
			"must be unix:// and an absolute path, as in unix:///run/containerd/containerd.sock, or ssh://user@host"))
	}
	if c.SSH != nil {
		errs = append(errs, field.Forbidden(at.Child("ssh"), "only with an endpoint as in ssh://user@host"))
	}
	return errs
}

// Socket returns the path of an endpoint on this machine; false: it is none.
func (c Config) Socket() (path string, ok bool) {
	path, ok = strings.CutPrefix(c.Endpoint, "unix://")
	return path, ok && filepath.IsAbs(path)
}

// dnsErrors judges what a file says outside backend.cri.
func (c Config) dnsErrors() field.ErrorList {
	var errs field.ErrorList
	for i, s := range c.ClusterDNS {
		if _, err := netip.ParseAddr(s); err != nil {
			errs = append(errs, field.Invalid(field.NewPath("clusterDNS").Index(i), s, "must be an IP address"))
		}
	}
	if c.ClusterDomain != "" {
		for _, why := range validation.IsDNS1123Subdomain(strings.TrimSuffix(c.ClusterDomain, ".")) {
			errs = append(errs, field.Invalid(field.NewPath("clusterDomain"), c.ClusterDomain, why))
		}
	}
	return errs
}
