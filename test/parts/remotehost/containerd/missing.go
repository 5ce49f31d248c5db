package containerd

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/burstlet/burstlet/test/parts/images"
	"github.com/burstlet/burstlet/test/parts/remotehost/namespaces"
)

// Missing names the Debian packages that containerd needs in namespaces and
// that this machine lacks, sorted.
func Missing() []string {
	packages := MissingBinaries(map[string]string{
		"containerd": "containerd", "ctr": "containerd", "containerd-shim-runc-v2": "containerd",
		"runc": "runc", "ip": "iproute2", "iptables": "iptables",
		"mount": "mount", "nsenter": "util-linux",
	})
	if CNIBinDir() == "" {
		packages = append(packages, "containernetworking-plugins")
	}
	if images.CheckBusybox() != nil {
		packages = append(packages, "busybox-static")
	}
	slices.Sort(packages)
	return slices.Compact(packages)
}

// MissingBinaries names the packages whose binaries, the keys, are missing.
func MissingBinaries(packageOf map[string]string) []string {
	var packages []string
	for binary, pkg := range packageOf {
		if _, err := namespaces.LookPath(binary); err != nil {
			packages = append(packages, pkg)
		}
	}
	return packages
}

// CNIBinDir is where the CNI plugins stand, Debian's place or upstream's; empty
// when they are in neither.
func CNIBinDir() string {
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
