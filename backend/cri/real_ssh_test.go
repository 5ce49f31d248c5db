package cri

import (
	"testing"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/backendtest"
	"github.com/burstlet/burstlet/backend/cri/host/helper/binary"
	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

// sshConfig is a backend's configuration for a remote host.
func sshConfig(h *remotehost.Host) Config {
	return Config{
		Endpoint: h.Endpoint(), NodeIdentity: "cluster/node-1",
		SSH: &SSH{
			KeyFiles: []string{h.KeyFile()}, KnownHostsFile: h.KnownHostsFile(), Helper: binary.Packed,
			Keepalive: time.Minute, // a busy machine is no dead link
		},
		ClusterDNS: []string{"198.18.0.53"}, ClusterDomain: "cluster.test",
	}
}

// TestContractOverSSH: a host that is reached over SSH honours the contract as the
// one here does. TestContractOverSSHWithFaults makes the same calls.
func TestContractOverSSH(t *testing.T) {
	lane.RacedFrom(t, lane.All)
	_, f := overSSH(t, func(_ *testing.T, b backend.Backend) backend.Backend { return b })
	backendtest.Run(t, f)
}

// overSSH is what the suite runs on a host that is reached over SSH; open makes
// what an engine connects to.
func overSSH(
	t *testing.T, open func(t *testing.T, b backend.Backend) backend.Backend,
) (*remotehost.Host, backendtest.Factory) {
	t.Helper()
	h := remotehost.ForTest(t, func(c *remotehost.Config) {
		// All checks that run at once connect at once: sshd would turn some away.
		c.SSHDOptions = []string{"MaxStartups 100"}
	})
	must(t, h.ServeRegistry(t.Context(), registryHost, testRegistry(t)))
	f := contract(func(t *testing.T) backend.Backend {
		b, err := New(sshConfig(h), backend.Always)
		must(t, err)
		return open(t, *b)
	})
	f.Lends = append(f.Lends, "Links")
	return h, f
}
