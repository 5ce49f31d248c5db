package local

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
)

func TestAllPodsTogetherAreLimited(t *testing.T) {
	c := host.Cgroup{Parent: "/top/podu", Shares: 2, Top: host.TopLimits{Shares: 2048, Memory: 1<<30 + 1, PIDs: 900}}
	for name, tt := range map[string]struct{ files, want map[string]string }{
		"version 1": {v1(nil), map[string]string{
			"cpu,cpuacct/top/cpu.shares": "2048", "memory/top/memory.limit_in_bytes": "1073741824", "pids/top/pids.max": "900",
		}},
		"version 2": {v2(map[string]string{"top/pids.max": "max\n", "top/cpu.weight": "100\n"}), map[string]string{
			"top/cpu.weight": "79", "top/memory.max": "1073741824", "top/pids.max": "900",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			root := fakeTree(t, tt.files)
			h := New(Options{CgroupRoot: root})
			noError(t, h.makeCgroup(t.Context(), c))
			if diff := cmp.Diff(tt.want, contents(t, root, tt.want)); diff != "" {
				t.Error(diff)
			}
			// Who asks for none leaves those of other nodes on the host.
			none := c
			none.Top = host.TopLimits{}
			noError(t, h.makeCgroup(t.Context(), none))
			if diff := cmp.Diff(tt.want, contents(t, root, tt.want)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestALimitBelowWhatAllPodsUseIsRefused(t *testing.T) {
	root := fakeTree(t, v2(map[string]string{
		"top/memory.current": "90000\n", "top/memory.stat": "inactive_file 1000\n", "top/memory.max": "max\n",
	}))
	h := New(Options{CgroupRoot: root})
	err := h.makeCgroup(t.Context(), host.Cgroup{Parent: "/top/podu", Top: host.TopLimits{Memory: 81920}})
	if !errors.Is(err, unix.EBUSY) ||
		!strings.Contains(err.Error(), "limit cgroup top: 89000 bytes of memory are in use") {
		t.Errorf("error %v", err)
	}
	if got := contents(t, root, map[string]string{"top/memory.max": ""})["top/memory.max"]; got != "max\n" {
		t.Errorf("the limit is %q", got)
	}
	h = New(Options{CgroupRoot: fakeTree(t, map[string]string{"cpu/cgroup.procs": ""})})
	err = h.makeCgroup(t.Context(), host.Cgroup{Parent: "/top/podu", Top: host.TopLimits{PIDs: 9}})
	if err == nil || !strings.Contains(err.Error(), "no cgroup controller pids") {
		t.Errorf("error %v", err)
	}
}

// systemd would write its own values again, and is told each only once.
func TestSystemdKnowsTheLimitsOfAllPods(t *testing.T) {
	log, script := filepath.Join(t.TempDir(), "log"), filepath.Join(t.TempDir(), "systemctl")
	noError(
		t, os.WriteFile(script, []byte("#!/bin/sh\ncase \"$*\" in *' top.slice '*) echo \"$@\" >>"+log+";; esac\n"), 0o755),
	)
	h := New(Options{
		CgroupRoot: fakeTree(t, v1(nil)), RunRoot: fakeTree(t, map[string]string{"systemd/system/": ""}),
		SystemctlCommand: script,
	})
	c := host.Cgroup{
		Parent: "top-podu.slice", Systemd: true, Shares: 2, Top: host.TopLimits{Shares: 1024, Memory: 8192, PIDs: 5},
	}
	noError(t, h.makeCgroup(t.Context(), c))
	noError(t, h.makeCgroup(t.Context(), c))
	said, err := os.ReadFile(log)
	noError(t, err)
	if want := "set-property --runtime top.slice CPUShares=1024 MemoryLimit=8192 TasksMax=5\n"; string(said) != want {
		t.Errorf("systemd was told %q, want %q", said, want)
	}
}
