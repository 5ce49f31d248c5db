package containerhost

import "github.com/burstlet/burstlet/test/parts/remotehost/containerd"

// Missing names the Debian packages that a host needs and that this machine
// lacks, sorted; none when a host can be started here by root.
func Missing() []string { return containerd.Missing() }
