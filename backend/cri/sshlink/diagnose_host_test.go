package sshlink

import (
	"strings"
	"testing"

	"github.com/burstlet/burstlet/backend/cri/host"
)

func TestWhatAHostOffersIsSaid(t *testing.T) {
	good := host.Facts{
		Kernel: "6.12.9-amd64", CgroupV2: true, Systemd: true, SwapLimits: true,
		Disk: host.Filesystem{Capacity: 100 << 30, Available: 42 << 30},
	}
	for name, tt := range map[string]struct {
		change func(*host.Facts)
		what   string
		warn   bool
		want   string
	}{
		"version 2":              {func(*host.Facts) {}, "cgroups", false, "version 2; systemd manages them: the driver should be systemd"},
		"version 1":              {func(f *host.Facts) { f.CgroupV2, f.Systemd = false, false }, "cgroups", false, "version 1; no systemd: the driver is cgroupfs; a container that"},
		"kernel":                 {func(*host.Facts) {}, "kernel", false, "6.12.9-amd64"},
		"no swap":                {func(*host.Facts) {}, "swap", false, "none"},
		"swap":                   {func(f *host.Facts) { f.Swap = 3 << 29 }, "swap", false, "1.5 GiB, not for Secrets, nor for containers unless memorySwap says so"},
		"swap of an old kernel":  {func(f *host.Facts) { f.Swap, f.Kernel = 1<<30, "6.1.0-18-amd64" }, "swap", true, "1 GiB: this kernel may write Secrets and tokens there"},
		"swap of an odd kernel":  {func(f *host.Facts) { f.Swap, f.Kernel = 1<<30, "odd" }, "swap", true, "may write Secrets"},
		"swap without limits":    {func(f *host.Facts) { f.Swap, f.SwapLimits = 1<<30, false }, "swap", true, "does not keep containers from it"},
		"disk":                   {func(*host.Facts) {}, "disk", false, "42 GiB free of 100 GiB"},
		"a disk that is full":    {func(f *host.Facts) { f.Disk.Available = 9 << 30 }, "disk", true, "9 GiB free of 100 GiB"},
		"a disk that is unknown": {func(f *host.Facts) { f.Disk = host.Filesystem{} }, "disk", false, "0 B free of 0 B"},
	} {
		t.Run(name, func(t *testing.T) {
			facts := good
			tt.change(&facts)
			for _, f := range DiagnoseHost(facts, "/run/runtime.sock", Tenant{}) {
				if f.What != tt.what {
					continue
				}
				if f.OK == tt.warn || f.Warn != tt.warn || !strings.Contains(f.Detail, tt.want) || (f.Advice != "") != tt.warn {
					t.Errorf("%+v", f)
				}
				return
			}
			t.Errorf("nothing is said of %s", tt.what)
		})
	}
}

// Nodes of one host that each offer all of it are refused, whatever process or cluster they
// are of.
func TestNeighboursAreSaid(t *testing.T) {
	for name, tt := range map[string]struct {
		node  Tenant
		nodes []string
		want  string
	}{
		"alone":               {Tenant{Node: "a"}, []string{"a"}, ""},
		"none yet":            {Tenant{Node: "a"}, nil, ""},
		"another":             {Tenant{Node: "a"}, []string{"a", "b"}, "FAIL pods of b are on this host too, and this node offers all"},
		"before its own":      {Tenant{Node: "a"}, []string{"b", "c"}, "FAIL pods of b, c are on this host too"},
		"with its part":       {Tenant{Node: "a", Bounded: true}, []string{"a", "b"}, "ok pods of b are on this host too; the parts of all"},
		"one, perhaps itself": {Tenant{}, []string{"b"}, ""},
		"two, one is another": {Tenant{}, []string{"a", "b"}, "FAIL pods of a, b are on this host too"},
	} {
		got := ""
		for _, f := range DiagnoseHost(host.Facts{Nodes: tt.nodes}, "/run/runtime.sock", tt.node) {
			switch {
			case f.What != "other nodes":
			case f.OK:
				got = "ok " + f.Detail
			case !f.Warn && strings.Contains(f.Advice, "node.capacity.cpu"):
				got = "FAIL " + f.Detail
			}
		}
		if !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
