package remotehost

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/burstlet/burstlet/test/kit/logs"
	"github.com/burstlet/burstlet/test/parts/remotehost/containerd"
)

// Missing names the Debian packages that a host needs and that this machine
// lacks, sorted; none when a host can be started here by root.
func Missing() []string {
	missing := append(containerd.Missing(), containerd.MissingBinaries(map[string]string{
		"sshd": "openssh-server", "sudo": "sudo", "bash": "bash", "unshare": "util-linux", "pivot_root": "util-linux",
	})...)
	slices.Sort(missing)
	return slices.Compact(missing)
}

// ForTest starts a host that lives as long as the test, or skips the test with
// the reason where no host can be started (and fails it when
// BURSTLET_REQUIRE_REAL=1). The end of the log of sshd and containerd is shown
// when the test fails, which it does if containerd ended by itself. Options change the configuration.
func ForTest(t testing.TB, options ...func(*Config)) *Host {
	t.Helper()
	containerd.Need(t, "remote host", Missing())
	var cfg Config
	for _, option := range options {
		option(&cfg)
	}
	containerd.NeedVersion(t, cfg.Containerd)
	host, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := host.inside.Load().Failed(containerd.Daemon); err != nil {
			t.Error(err)
		}
		logs.Show(t, "sshd and containerd", host.inside.Load().Log())
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		if err := host.Stop(ctx); err != nil {
			t.Errorf("stop remote host: %v", err)
		}
	})
	return host
}
