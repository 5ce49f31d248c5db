package remotehost

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/burstlet/burstlet/test/parts/remotehost/containerd"
	"github.com/burstlet/burstlet/test/parts/remotehost/namespaces"
)

// Users of every host; both are let in by the same key.
const (
	// Root may do everything.
	Root = "root"
	// Burst is in the group of containerd's socket and may use sudo.
	Burst = "burst"
)

// Config says what kind of host [Start] makes. Its zero value is a good one.
type Config struct {
	// Hostname is the host's own name; by default one that no other host has.
	Hostname string
	// SSHDOptions are lines of sshd_config that go before the defaults, so that
	// they win: "PermitTTY no", "AllowTcpForwarding no", "MaxSessions 2".
	SSHDOptions []string
	// NoSudo keeps sudo from Burst.
	NoSudo bool
	// DiskBytes bounds the host's disk, which then is in memory; by default it is
	// a directory on the machine's disk, without a bound.
	DiskBytes int64
	// LinkAddress is the address of this machine that the link listens at, for
	// those who do not reach loopback, such as pods of another host that is joined to
	// the machine's network; by default 127.0.0.1.
	LinkAddress netip.Addr
	// Containerd is which containerd runs; by default the machine's own. What is not built
	// is built, which takes minutes. On a bounded disk its programs want 150 MB.
	Containerd containerd.Version
	// Linked boots the host with the other end of eth0's wire in the machine's network,
	// and with a route to the pods there: the machine dials the host's address, pods and
	// the streaming server, and they dial [Host.Gateway] and nothing beyond it.
	Linked bool
	// Log gets what sshd and containerd log; nil discards it.
	Log io.Writer
}

func (c Config) validate() error {
	if strings.ContainsAny(c.Hostname, " /\n") {
		return fmt.Errorf("host name %q is invalid", c.Hostname)
	}
	for _, option := range c.SSHDOptions {
		if strings.ContainsAny(option, "\n") {
			return fmt.Errorf("option of sshd %q is more than one line", option)
		}
	}
	if c.DiskBytes < 0 {
		return errors.New("a disk cannot have less than 0 bytes")
	}
	return c.Containerd.Check()
}

// Where things stand inside, as on any Debian host.
const (
	containerdConfig = "/etc/containerd/config.toml"
	containerdSocket = "/run/containerd/containerd.sock"
	registryConf     = "/etc/containerd/certs.d"
	cniConf          = "/etc/cni/net.d"
	sshdConfig       = "/etc/ssh/sshd_config"
	hostKey          = "/etc/ssh/ssh_host_ed25519_key"
	sshPort          = 22
)

const (
	dirPrefix = "blremote-"
	// marker is the file that tells a directory that a host owns, or owned.
	marker = "remotehost"
)

// reclaim removes a state directory and what else a host left.
func reclaim(dir string) error {
	err := errors.Join(namespaces.RemoveCgroupTrees(layout{dir: dir}.cgroup()), namespaces.UnmountBelow(dir))
	if remove := os.RemoveAll(dir); remove != nil {
		err = errors.Join(err, fmt.Errorf("remove state directory: %w", remove))
	}
	return err
}

// layout is where things stand in the state directory, on the machine.
type layout struct{ dir string }

// disk returns where a path of the host's disk stands on the machine.
func (l layout) disk(path string) string { return filepath.Join(l.dir, "disk", path) }

func (l layout) key() string        { return filepath.Join(l.dir, "id_ed25519") }
func (l layout) knownHosts() string { return filepath.Join(l.dir, "known_hosts") }
func (l layout) archive() string    { return filepath.Join(l.dir, "images.tar") }
func (l layout) shared() string     { return filepath.Join(l.dir, "shared") }

// cgroup is the name of the host's cgroup at the top of every hierarchy.
func (l layout) cgroup() string {
	return "remotehost-" + strings.TrimPrefix(filepath.Base(l.dir), dirPrefix)
}
