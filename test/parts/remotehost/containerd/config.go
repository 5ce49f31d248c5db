package containerd

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/test/parts/images"
)

// Config is what containerd is told. Paths are those that it sees.
type Config struct {
	Socket string
	// SocketGroup is the number of the group that may use the socket beside root.
	SocketGroup int
	// CNIBin holds the plugins, CNIConf the configuration of WriteCNIConfig.
	CNIBin, CNIConf string
	// RegistryConf holds what WriteRegistry wrote.
	RegistryConf string
	Snapshotter  string
	// StreamAddress is the host's own address that exec, attach and port-forward
	// are served on.
	StreamAddress string
	// SystemdCgroup lets systemd make the cgroups.
	SystemdCgroup bool
}

//go:embed containerd.toml.tmpl
var configTemplate string

// Text is containerd's configuration.
func (c Config) Text() (string, error) {
	parsed, err := template.New("containerd.toml").Option("missingkey=error").Parse(configTemplate)
	if err != nil {
		return "", fmt.Errorf("parse containerd configuration: %w", err)
	}
	var out strings.Builder
	err = parsed.Execute(&out, struct {
		Config
		SandboxImage string
	}{c, images.PauseRef})
	if err != nil {
		return "", fmt.Errorf("render containerd configuration: %w", err)
	}
	return out.String(), nil
}

// WriteFile writes containerd's configuration.
func (c Config) WriteFile(path string) error {
	text, err := c.Text()
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write containerd configuration: %w", err)
	}
	return nil
}

// CNIFile is the name of the file with the pods' network.
const CNIFile = "10-bridge.conflist"

// CNIConfig is the pods' network: a bridge that is their gateway, with host ports and
// without masquerading.
func CNIConfig(subnet netip.Prefix) (string, error) {
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
		return "", fmt.Errorf("render CNI configuration: %w", err)
	}
	return string(content), nil
}

// WriteCNIConfig writes the pods' network into a directory.
func WriteCNIConfig(dir string, subnet netip.Prefix) error {
	content, err := CNIConfig(subnet)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, CNIFile), []byte(content), 0o644); err != nil {
		return fmt.Errorf("write CNI configuration: %w", err)
	}
	return nil
}

// WriteRegistry makes a registry of that name stand at a numeric address, in
// plain HTTP. containerd reads it at the next pull.
func WriteRegistry(registryConf, name, address string) error {
	dir := filepath.Join(registryConf, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make registry configuration: %w", err)
	}
	url := "http://" + address
	hosts := fmt.Sprintf("server = %q\n[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n", url, url)
	if err := os.WriteFile(filepath.Join(dir, "hosts.toml"), []byte(hosts), 0o644); err != nil {
		return fmt.Errorf("write registry configuration: %w", err)
	}
	return nil
}

// Snapshotter is the best one that works on the file system of a directory,
// which may carry no overlays (it may be one): "overlayfs" or "native".
func Snapshotter(dir string) (name string, err error) {
	probe, err := os.MkdirTemp(dir, "probe-")
	if err != nil {
		return "", fmt.Errorf("probe for overlays: %w", err)
	}
	defer func() {
		if remove := os.RemoveAll(probe); remove != nil {
			err = errors.Join(err, fmt.Errorf("remove probe for overlays: %w", remove))
		}
	}()
	at := map[string]string{}
	for _, part := range []string{"lower", "upper", "work", "merged"} {
		at[part] = filepath.Join(probe, part)
		if err := os.Mkdir(at[part], 0o755); err != nil {
			return "", fmt.Errorf("probe for overlays: %w", err)
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", at["lower"], at["upper"], at["work"])
	if err := unix.Mount("overlay", at["merged"], "overlay", 0, options); err != nil {
		return "native", nil // that is the answer
	}
	if err := unix.Unmount(at["merged"], 0); err != nil {
		return "", fmt.Errorf("unmount probe for overlays: %w", err)
	}
	return "overlayfs", nil
}
