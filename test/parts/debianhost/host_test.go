package debianhost

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/kit/lane"
)

// on runs a script on the host and returns its output.
func on(t *testing.T, h *Host, script string) string {
	t.Helper()
	out, err := h.Command(t.Context(), "sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("run %q on the host: %v: %s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestHost shows that the host is what it is for: systemd, cgroups of version 2, a kernel
// and boots of its own, a disk that outlives them.
func TestHost(t *testing.T) {
	lane.From(t, lane.All)
	started := time.Now()
	var h *Host
	t.Cleanup(func() { isGone(t, h) }) // after ForTest's
	h = ForTest(t, Config{})
	t.Logf("the host started in %s", time.Since(started).Round(time.Second))
	for script, want := range map[string]string{
		"cat /proc/1/comm":                        "systemd",
		"stat -f -c %T /sys/fs/cgroup":            "cgroup2fs",
		". /etc/os-release; echo $ID $VERSION_ID": "debian 13",
		"hostname":                                     h.Hostname(),
		"systemctl --failed --no-legend --plain":       "",
		"systemctl is-active containerd":               "active",
		"echo \"it's one word\" | cat":                 "it's one word",
		"ip -o -4 addr show eth0 | grep -c 198.19.0.2": "1",
	} {
		if got := on(t, h, script); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
	runtime, _ := h.CRI()
	before, err := h.BootID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, boot := range map[string]func() error{
		"a reboot": func() error { return h.Reboot(t.Context()) },
		"no power": func() error { return h.powerCycle(t) },
	} {
		on(t, h, "echo kept >/var/lib/file && sync; echo lost >/run/file")
		if err := boot(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := on(t, h, "cat /var/lib/file; cat /run/file 2>/dev/null || echo gone"); got != "kept\ngone" {
			t.Errorf("after %s: %q", name, got)
		}
		after, err := h.BootID(t.Context())
		if err != nil || after == before {
			t.Errorf("after %s the boot is %s, before it %s: %v", name, after, before, err)
		}
		before = after
		if _, err := runtime.Version(t.Context(), &runtimeapi.VersionRequest{}); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
	}
}

// isGone checks that nothing of a host that was stopped is left: its directory, and the
// namespaces that have its processes and its wire.
func isGone(t *testing.T, h *Host) {
	t.Helper()
	if h == nil {
		return // it was not started
	}
	if _, err := os.Stat(h.dir.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the host's directory is left: %v", err)
	}
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range found {
		if words, err := os.ReadFile(file); err == nil && strings.Contains(string(words), h.dir.Path) {
			t.Errorf("%s is left: %q", file, words)
		}
	}
	if _, err := net.InterfaceByName("tap0"); err == nil {
		t.Error("the host's wire is on the machine")
	}
}

func (h *Host) powerCycle(t *testing.T) error {
	t.Helper()
	if err := h.PowerOff(); err != nil {
		return err
	}
	return h.PowerOn(t.Context())
}
