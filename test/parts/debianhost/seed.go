package debianhost

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"time"

	"github.com/burstlet/burstlet/test/parts/remotehost/containerd"
	"github.com/burstlet/burstlet/test/parts/sshkey"
)

// Where things stand on the host.
const (
	containerdSocket = "/run/containerd/containerd.sock"
	containerdConfig = "/etc/containerd/config.toml"
	cniConf          = "/etc/cni/net.d"
)

// seedFile is a file, or with a name that ends in a slash a directory.
type seedFile struct {
	name, content string
	mode          int64
}

// writeSeed writes what makes this host another one than the others.
func (h *Host) writeSeed() error {
	user, err := sshkey.New("burstlet test")
	if err != nil {
		return err
	}
	host, err := sshkey.New(h.Hostname())
	if err != nil {
		return err
	}
	h.hostKey = host.Public
	if err := os.WriteFile(h.KeyFile(), []byte(user.Private), 0o600); err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	runtime, err := containerd.Config{
		Socket: containerdSocket, CNIBin: "/usr/lib/cni", CNIConf: cniConf, RegistryConf: "/etc/containerd/certs.d",
		Snapshotter: "overlayfs", StreamAddress: "127.0.0.1", SystemdCgroup: !h.cfg.Cgroupfs,
	}.Text()
	if err != nil {
		return err
	}
	network, err := containerd.CNIConfig(podSubnet())
	if err != nil {
		return err
	}
	return writeTar(h.path("seed.tar"), []seedFile{
		{"root/.ssh/", "", 0o700},
		{"root/.ssh/authorized_keys", user.Authorized(), 0o600},
		{"etc/ssh/ssh_host_ed25519_key", host.Private, 0o600},
		{"etc/ssh/ssh_host_ed25519_key.pub", host.Authorized(), 0o644},
		{"etc/hostname", h.Hostname() + "\n", 0o644},
		{"etc/hosts", "127.0.0.1 localhost\n" + h.Address().String() + " " + h.Hostname() + "\n", 0o644},
		{containerdConfig[1:], runtime, 0o644},
		{cniConf[1:] + "/" + containerd.CNIFile, network, 0o644},
	})
}

func writeTar(path string, files []seedFile) error {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for _, file := range files {
		header := &tar.Header{
			Name: file.name, Mode: file.mode, Size: int64(len(file.content)), ModTime: time.Now(), Typeflag: tar.TypeReg,
		}
		if file.name[len(file.name)-1] == '/' {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return fmt.Errorf("write seed: %w", err)
		}
		if _, err := w.Write([]byte(file.content)); err != nil {
			return fmt.Errorf("write seed: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("write seed: %w", err)
	}
	if err := os.WriteFile(path, buffer.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write seed: %w", err)
	}
	return nil
}
