package containerhost

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/burstlet/burstlet/test/images"
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

// marker tells a directory that a host owns, or owned, from any other.
func (l layout) marker() string { return filepath.Join(l.dir, "containerhost") }

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

//go:embed containerd.toml.tmpl
var containerdTemplate string

// writeContainerdConfig writes containerd's configuration. streamAddress is
// the host's own address that exec, attach and port-forward are served on.
func (l layout) writeContainerdConfig(cniBin, snapshotter, streamAddress string) error {
	parsed, err := template.New("containerd.toml").Option("missingkey=error").Parse(containerdTemplate)
	if err != nil {
		return fmt.Errorf("parse containerd configuration: %w", err)
	}
	var out strings.Builder
	err = parsed.Execute(&out, map[string]string{
		"Root": l.root(), "State": l.state(), "Socket": l.socket(),
		"CNIBin": cniBin, "CNIConf": l.cniConf(), "RegistryConf": l.registryConf(),
		"Snapshotter": snapshotter, "StreamAddress": streamAddress, "SandboxImage": images.PauseRef,
	})
	if err != nil {
		return fmt.Errorf("render containerd configuration: %w", err)
	}
	if err := os.WriteFile(l.config(), []byte(out.String()), 0o644); err != nil {
		return fmt.Errorf("write containerd configuration: %w", err)
	}
	return nil
}

// writeCNIConfig writes the pods' network: a bridge that is their gateway,
// with host ports and without masquerading.
func (l layout) writeCNIConfig(subnet netip.Prefix) error {
	type object = map[string]any
	list := object{
		"cniVersion": "1.0.0",
		"name":       "burstlet-test",
		"plugins": []object{
			{
				"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
				"ipam": object{
					"type":   "host-local",
					"ranges": [][]object{{{"subnet": subnet.String()}}},
					"routes": []object{{"dst": "0.0.0.0/0"}},
				},
			},
			{"type": "portmap", "capabilities": object{"portMappings": true}},
		},
	}
	content, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return fmt.Errorf("render CNI configuration: %w", err)
	}
	if err := os.WriteFile(filepath.Join(l.cniConf(), "10-bridge.conflist"), content, 0o644); err != nil {
		return fmt.Errorf("write CNI configuration: %w", err)
	}
	return nil
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
