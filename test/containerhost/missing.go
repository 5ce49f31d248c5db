package containerhost

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/burstlet/burstlet/test/images"
)

// Missing names the Debian packages that a host needs and that this machine
// lacks, sorted; none when a host can be started here by root.
func Missing() []string {
	var packages []string
	for binary, pkg := range map[string]string{
		"containerd": "containerd", "ctr": "containerd", "containerd-shim-runc-v2": "containerd",
		"runc": "runc", "ip": "iproute2", "iptables": "iptables",
		"mount": "mount", "nsenter": "util-linux",
	} {
		if _, err := lookPath(binary); err != nil {
			packages = append(packages, pkg)
		}
	}
	if cniBinDir() == "" {
		packages = append(packages, "containernetworking-plugins")
	}
	if images.CheckBusybox() != nil {
		packages = append(packages, "busybox-static")
	}
	slices.Sort(packages)
	return slices.Compact(packages)
}

// lookPath finds a binary where the host will look for it: the caller's PATH
// may lack the directories of administration tools.
func lookPath(binary string) (string, error) {
	for _, dir := range filepath.SplitList(hostPath) {
		if path, err := exec.LookPath(filepath.Join(dir, binary)); err == nil {
			return path, nil
		}
	}
	return "", &exec.Error{Name: binary, Err: exec.ErrNotFound}
}

// cniBinDir is where the CNI plugins stand: Debian's place, or upstream's.
func cniBinDir() string {
	for _, dir := range []string{"/usr/lib/cni", "/opt/cni/bin"} {
		if holdsAll(dir, "bridge", "host-local", "loopback", "portmap") {
			return dir
		}
	}
	return ""
}

func holdsAll(dir string, names ...string) bool {
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}
