package debianhost

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"testing"

	"github.com/burstlet/burstlet/test/kit/logs"
	"github.com/burstlet/burstlet/test/kit/need"
	"github.com/burstlet/burstlet/test/parts/images"
	"github.com/burstlet/burstlet/test/parts/remotehost/containerd"
)

// Missing names the Debian packages that a host needs and that this machine lacks,
// sorted.
func Missing() []string {
	missing := containerd.MissingBinaries(map[string]string{
		"linux.uml": "user-mode-linux", "mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs", "ip": "iproute2",
		"ssh": "openssh-client", "nsenter": "util-linux", "unshare": "util-linux", "flock": "util-linux", "mount": "mount",
		"apt-get": "apt",
	})
	if _, err := os.Stat("/usr/share/keyrings/debian-archive-keyring.gpg"); errors.Is(err, fs.ErrNotExist) {
		missing = append(missing, "debian-archive-keyring")
	}
	if images.CheckBusybox() != nil {
		missing = append(missing, "busybox-static")
	}
	slices.Sort(missing)
	return slices.Compact(missing)
}

// ForTest starts a host that lives as long as the test, or skips the test with the reason
// where no host can be started (and fails it when BURSTLET_REQUIRE_REAL=1). The end of what
// its console showed is shown when the test fails.
func ForTest(t testing.TB, cfg Config) *Host {
	t.Helper()
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		need.Missing(t, "no Debian host: %v", err)
	}
	if missing := Missing(); len(missing) > 0 {
		need.Missing(t, "no Debian host: %v not installed: run tools/real-parts debian-host", missing)
	}
	containerd.Need(t, "Debian host", nil)
	h, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		logs.Show(t, "console", h.Log())
		if err := h.Stop(); err != nil {
			t.Errorf("stop Debian host: %v", err)
		}
	})
	return h
}
