package sshlink

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/burstlet/burstlet/backend"
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
		"version 2": {
			func(*host.Facts) {}, "cgroups", false, "version 2; systemd manages them: the driver should be systemd",
		},
		"version 1": {
			func(f *host.Facts) { f.CgroupV2, f.Systemd = false, false }, "cgroups", false,
			"version 1; no systemd: the driver is cgroupfs; a container that",
		},
		"kernel":  {func(*host.Facts) {}, "kernel", false, "6.12.9-amd64"},
		"no swap": {func(*host.Facts) {}, "swap", false, "none"},
		"swap": {
			func(f *host.Facts) { f.Swap = 3 << 29 }, "swap", false,
			"1.5 GiB, not for Secrets, nor for containers unless memorySwap says so",
		},
		"swap of an old kernel": {
			func(f *host.Facts) { f.Swap, f.Kernel = 1<<30, "6.1.0-18-amd64" }, "swap", true,
			"1 GiB: this kernel may write Secrets and tokens there",
		},
		"swap of an odd kernel": {
			func(f *host.Facts) { f.Swap, f.Kernel = 1<<30, "odd" }, "swap", true, "may write Secrets",
		},
		"swap without limits": {
			func(f *host.Facts) { f.Swap, f.SwapLimits = 1<<30, false }, "swap", true, "does not keep containers from it",
		},
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
		"alone":    {Tenant{Node: "a"}, []string{"a"}, ""},
		"none yet": {Tenant{Node: "a"}, nil, ""},
		"another": {
			Tenant{Node: "a"}, []string{"a", "b"}, "FAIL pods of b are on this host too, and this node offers all",
		},
		"before its own": {Tenant{Node: "a"}, []string{"b", "c"}, "FAIL pods of b, c are on this host too"},
		"with its part": {
			Tenant{Node: "a", Bounded: true}, []string{"a", "b"}, "ok pods of b are on this host too; the parts of all",
		},
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

// delayingHost says how long its shutdown can wait.
type delayingHost struct {
	host.Host
	delay host.ShutdownDelay
	err   error
}

func (h delayingHost) ShutdownDelay(context.Context) (host.ShutdownDelay, error) {
	return h.delay, h.err
}

// TestShutdownsThatCannotWaitAreSaid, with what to do, where pods are given time.
func TestShutdownsThatCannotWaitAreSaid(t *testing.T) {
	const s = time.Second
	for name, tt := range map[string]struct {
		wanted time.Duration
		h      delayingHost
		want   string // verdict and the beginning of the detail; empty: nothing is said
	}{
		"pods are given no time": {0, delayingHost{err: errors.New("not asked")}, ""},
		"long enough": {
			24 * s, delayingHost{delay: host.ShutdownDelay{Most: 30 * s}}, "ok waits for 30s at most, and 24s",
		},
		"just long enough": {
			30 * s, delayingHost{delay: host.ShutdownDelay{Most: 30 * s, Asked: 30 * s}}, "ok waits for 30s",
		},
		"not yet": {
			24 * s, delayingHost{delay: host.ShutdownDelay{Most: 5 * s}}, "ok waits for 5s at most; burstlet raises that to 24s",
		},
		"more is wanted than before": {
			24 * s,
			delayingHost{delay: host.ShutdownDelay{Most: 10 * s, Asked: 10 * s}},
			"ok waits for 10s at most; burstlet raises",
		},
		"another file has the last word": {
			24*s + s/2,
			delayingHost{delay: host.ShutdownDelay{Most: 5 * s, Asked: 25 * s}},
			"FAIL waits for 5s at most, 24.5s are wanted, and burstlet's file with 25s counts for nothing: pods end without " +
				"their grace: set InhibitDelayMaxSec=25 in",
		},
		"no logind": {
			24 * s,
			delayingHost{err: backend.Errorf(backend.ErrUnsupported, "no D-Bus")},
			"warn no D-Bus: pods end with the host, without their grace: run D-Bus and systemd-logind",
		},
		"it cannot be asked": {24 * s, delayingHost{err: errors.New("it is down")}, "FAIL it is down"},
	} {
		t.Run(name, func(t *testing.T) {
			found := Tenant{ShutdownDelay: tt.wanted}.DiagnoseShutdown(t.Context(), tt.h)
			if tt.want == "" || len(found) != 1 {
				if tt.want != "" || len(found) > 0 {
					t.Errorf("%+v, want %q", found, tt.want)
				}
				return
			}
			f, verdict := found[0], "FAIL"
			switch {
			case f.OK:
				verdict = "ok"
			case f.Warn:
				verdict = "warn"
			}
			if got := verdict + " " + f.Detail + ": " + f.Advice; f.What != "shutdown" || !strings.HasPrefix(got, tt.want) {
				t.Errorf("%s: %s, want %s", f.What, got, tt.want)
			}
		})
	}
}
