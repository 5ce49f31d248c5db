package containerhost

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/burstlet/burstlet/test/parts/remotehost/containerd"
)

// maxSocketPath is the longest path of a unix socket, without its final zero
// byte (unix(7), sun_path).
const maxSocketPath = 107

// Config says what kind of host [Start] makes. Its zero value is a good one.
type Config struct {
	// StateDir is where everything of the host that is visible to the machine
	// stands. It must be empty or missing; Stop removes it. Keep it short: the
	// path of a unix socket has at most 107 bytes. By default a new directory
	// below os.TempDir().
	StateDir string
	// Subnet is the IPv4 network of the host's pods. By default a free /24 of
	// 198.18.0.0/16, which RFC 2544 sets aside for tests.
	Subnet netip.Prefix
	// Linked joins the host to the machine with a veth pair and a route, so that
	// pods and the streaming server can be dialled from the machine. Pods can
	// then dial the machine, and nothing beyond it.
	Linked bool
	// Hostname is the host's own name; by default "containerhost".
	Hostname string
	// Log gets containerd's own log; nil discards it.
	Log io.Writer
}

// layout is where things stand in the state directory.
type layout struct{ dir string }

func (l layout) socket() string       { return filepath.Join(l.dir, "cri.sock") }
func (l layout) config() string       { return filepath.Join(l.dir, "config.toml") }
func (l layout) root() string         { return filepath.Join(l.dir, "root") }
func (l layout) state() string        { return filepath.Join(l.dir, "state") }
func (l layout) cniConf() string      { return filepath.Join(l.dir, "cni") }
func (l layout) registryConf() string { return filepath.Join(l.dir, "certs.d") }
func (l layout) logs() string         { return filepath.Join(l.dir, "logs") }
func (l layout) shared() string       { return filepath.Join(l.dir, "shared") }
func (l layout) archive() string      { return filepath.Join(l.dir, "images.tar") }

// makeDirs makes the directories that the host and its users expect.
func (l layout) makeDirs() error {
	if len(l.socket()) > maxSocketPath {
		return fmt.Errorf("socket path %s is longer than %d bytes: choose a shorter state directory", l.socket(), maxSocketPath)
	}
	if strings.ContainsAny(l.dir, `"\`+"\n") {
		return fmt.Errorf("state directory %q holds characters that containerd's configuration cannot", l.dir)
	}
	for _, dir := range []string{l.root(), l.state(), l.cniConf(), l.registryConf(), l.logs(), l.shared()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make state directory: %w", err)
		}
	}
	return nil
}

// containerd is the configuration of the host's containerd.
func (l layout) containerd(snapshotter, streamAddress string) containerd.Config {
	return containerd.Config{
		Root: l.root(), State: l.state(), Socket: l.socket(),
		CNIBin: containerd.CNIBinDir(), CNIConf: l.cniConf(), RegistryConf: l.registryConf(),
		Snapshotter: snapshotter, StreamAddress: streamAddress,
	}
}

// validate checks what can be checked before anything is made.
func (c Config) validate() error {
	if c.Subnet.IsValid() {
		if !c.Subnet.Addr().Is4() || c.Subnet.Bits() > 29 || c.Subnet != c.Subnet.Masked() {
			return fmt.Errorf("subnet %s is no IPv4 network with room for pods", c.Subnet)
		}
	}
	if strings.ContainsAny(c.Hostname, " /\n") {
		return fmt.Errorf("host name %q is invalid", c.Hostname)
	}
	if c.StateDir == "" {
		return nil
	}
	if !filepath.IsAbs(c.StateDir) {
		return fmt.Errorf("state directory %s is not an absolute path", c.StateDir)
	}
	entries, err := os.ReadDir(c.StateDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read state directory: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("state directory %s is not empty", c.StateDir)
	}
	return nil
}
