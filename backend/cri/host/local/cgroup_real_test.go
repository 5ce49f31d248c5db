package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/test/kit/need"
)

// realCgroups is a Host on this machine's cgroups, and a top of the test's own,
// which is removed at its end.
func realCgroups(t *testing.T) (h *Host, top string) {
	t.Helper()
	h = New(Options{})
	hs, err := h.hierarchies()
	for _, hi := range hs {
		err = errors.Join(err, unix.Access(hi.dir, unix.W_OK))
	}
	need.Root(t)
	if err != nil {
		need.Missing(t, "cgroups that can be written are needed: %v", err)
	}
	top = fmt.Sprintf("burstlet-test-%d", os.Getpid())
	t.Cleanup(func() {
		for _, hi := range hs {
			if err := removeCgroupTree(context.Background(), hi.at([]string{top}), spared); err != nil {
				t.Errorf("remove the test's cgroup: %v", err)
			}
		}
	})
	return h, top
}

// occupy starts a process in the cgroup, in every tree: it sleeps, or is the command.
func occupy(t *testing.T, hs hierarchies, levels []string, command ...string) *exec.Cmd {
	t.Helper()
	if len(command) == 0 {
		command = []string{"sleep", "600"}
	}
	cmd := exec.Command(command[0], command[1:]...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err == nil {
			_ = cmd.Wait() // it was killed
		}
	})
	for _, hi := range hs {
		if err := os.WriteFile(
			filepath.Join(hi.at(levels), fileProcs), []byte(strconv.Itoa(cmd.Process.Pid)), 0o644,
		); err != nil {
			t.Fatal(err)
		}
	}
	return cmd
}

func TestRealCgroup(t *testing.T) {
	h, top := realCgroups(t)
	hs, err := h.hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	pod := host.Cgroup{
		Parent: "/" + top + "/burstable/podu", Shares: 512, Quota: 20000, Period: 100000, Memory: 64 << 20, PIDs: 50,
		QOSShares: 700,
	}
	if err := h.makeCgroup(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	levels := []string{top, "burstable", "podu"}
	for _, hi := range hs {
		if !exists(hi.at(levels)) {
			t.Errorf("the cgroup is not in %s", hi.dir)
		}
	}
	process := occupy(t, hs, levels)
	t.Run("use", func(t *testing.T) { realUse(t, h, pod) })
	t.Run("limits", func(t *testing.T) { realLimits(t, h, hs, levels) })
	t.Run("removal", func(t *testing.T) {
		realRemoval(t, h, pod, process)
		if _, err := hs.measure(levels); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the cgroup is left: %v", err)
		}
	})
}

func realUse(t *testing.T, h *Host, pod host.Cgroup) {
	u, err := h.Usage(t.Context(), host.UsageRequest{Pods: []host.PodUsageRequest{
		{UID: "u", Cgroup: pod}, {UID: "gone", Cgroup: host.Cgroup{Parent: pod.Parent + "gone"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := u.Pods["gone"]; ok || len(u.Pods) != 1 {
		t.Errorf("pods %v are measured, want the one that has a cgroup", u.Pods)
	}
	used := u.Pods["u"]
	if used.CPUNanoseconds == nil || used.WorkingSet == nil || used.MemoryLimit == nil || used.PIDs == nil {
		t.Fatalf("the pod uses %+v", used)
	}
	if *used.MemoryLimit != uint64(pod.Memory) || *used.PIDs != 1 {
		t.Errorf("the pod has %d bytes and %d processes, want %d and 1", *used.MemoryLimit, *used.PIDs, pod.Memory)
	}
}

// realLimits sets more, less and nothing, the processors in every order.
func realLimits(t *testing.T, h *Host, hs hierarchies, levels []string) {
	for _, c := range []host.Cgroup{
		{Quota: 90000, Period: 100000, Memory: 128 << 20, PIDs: 90},
		{Quota: 1000, Period: 1000, Memory: 32 << 20, PIDs: 10},
		{Quota: 900000, Period: 1000000, Memory: 32 << 20, PIDs: 10},
		{},
	} {
		c.Parent, c.Shares = "/"+strings.Join(levels, "/"), 2
		if err := only(h.Limit(t.Context(), c)); err != nil {
			t.Errorf("limit to %+v: %v", c, err)
		}
		got, err := hs.measure(levels)
		if err != nil {
			t.Fatal(err)
		}
		var limit uint64
		if got.MemoryLimit != nil {
			limit = *got.MemoryLimit
		}
		if limit != uint64(c.Memory) {
			t.Errorf("limited to %+v it has %d bytes", c, limit)
		}
	}
}

func realRemoval(t *testing.T, h *Host, pod host.Cgroup, process *exec.Cmd) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := h.removeCgroup(ctx, pod, spared)
	if !errors.Is(err, unix.EBUSY) || !strings.Contains(err.Error(), strconv.Itoa(process.Process.Pid)) {
		t.Errorf("a cgroup with process %d is removed with error %v", process.Process.Pid, err)
	}
	for range 2 {
		if err := only(h.Discard(t.Context(), host.Discard{Cgroup: &pod})); err != nil {
			t.Error(err)
		}
	}
	wantKilled(t, process)
}

func wantKilled(t *testing.T, process *exec.Cmd) {
	t.Helper()
	if err := process.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("process %d ended with %v, want killed", process.Process.Pid, err)
	}
}

// TestRealLeftovers: what runs in the cgroups of those that have ended is killed, and
// nothing else in the pod's.
func TestRealLeftovers(t *testing.T) {
	h, top := realCgroups(t)
	hs, err := h.hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	processes := map[string]*exec.Cmd{}
	for _, name := range []string{"dead", "cri-containerd-cafe.scope", "alive"} {
		if err := h.makeCgroup(t.Context(), host.Cgroup{Parent: "/" + top + "/podu/" + name}); err != nil {
			t.Fatal(err)
		}
		processes[name] = occupy(t, hs, []string{top, "podu", name})
	}
	left := &host.Leftovers{Cgroup: host.Cgroup{Parent: "/" + top + "/podu"}, IDs: []string{"dead", "cafe", "nothing", ""}}
	for range 2 {
		if err := only(h.Discard(t.Context(), host.Discard{Left: left})); err != nil {
			t.Error(err)
		}
	}
	for name, process := range processes {
		ended := name != "alive"
		for _, hi := range hs {
			if there := exists(hi.at([]string{top, "podu", name})); there == ended {
				t.Errorf("cgroup %s is there in %s: %t", name, hi.dir, there)
			}
		}
		if ended {
			wantKilled(t, process)
		} else if err := process.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("process %s: %v", name, err)
		}
	}
	left.Cgroup.Parent = "/" + top + "/podgone"
	if err := only(h.Discard(t.Context(), host.Discard{Left: left})); err != nil {
		t.Errorf("a pod whose cgroup is gone: %v", err)
	}
	alive := processes["alive"].Process
	if err := alive.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = alive.Wait() // it was killed
}

// TestRealStrays: what a start that the runtime forgot left is killed a minute later; what
// the runtime knows stays, and what is no container's.
func TestRealStrays(t *testing.T) {
	h, top := realCgroups(t)
	hs, err := h.hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	id := func(digit string) string { return strings.Repeat(digit, 64) }
	processes := map[string]*exec.Cmd{}
	for name, old := range map[string]bool{
		id("a"): true, "cri-containerd-" + id("b") + ".scope": true, id("c"): false, id("d"): true, "own": true,
	} {
		if err := h.makeCgroup(t.Context(), host.Cgroup{Parent: "/" + top + "/podu/" + name}); err != nil {
			t.Fatal(err)
		}
		processes[name] = occupy(t, hs, []string{top, "podu", name})
		for _, hi := range hs {
			if then := time.Now().Add(-2 * sweepAge); old {
				if err := os.Chtimes(hi.at([]string{top, "podu", name}), then, then); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	pods := []host.Known{
		{Cgroup: host.Cgroup{Parent: "/" + top + "/podgone"}},
		{Cgroup: host.Cgroup{Parent: "/" + top + "/podu"}, IDs: []string{id("d"), id("e")}},
	}
	removed, err := h.Strays(t.Context(), pods)
	want := []string{id("a"), "cri-containerd-" + id("b") + ".scope"}
	if err != nil || !slices.Equal(slices.Sorted(slices.Values(removed)), want) {
		t.Errorf("removed %q, error %v, want %q", removed, err, want)
	}
	for name, process := range processes {
		if slices.Contains(want, name) {
			wantKilled(t, process)
		} else if err := process.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("process %s: %v", name, err)
		} else if err := process.Process.Kill(); err != nil {
			t.Error(err)
		} else {
			_, _ = process.Process.Wait() // it was killed
		}
	}
}

// TestRealQuotaBelowContainer: the kernel's version 1 refuses less than what is
// below has, and version 2 takes any order.
func TestRealQuotaBelowContainer(t *testing.T) {
	h, top := realCgroups(t)
	hs, err := h.hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	cpu, ok := hs.with(controllerCPU)
	if !ok {
		need.Missing(t, "no cgroup tree has the cpu controller")
	}
	pod := host.Cgroup{Parent: "/" + top + "/podq", Shares: 2, Quota: 50000, Period: 100000}
	container := pod
	container.Parent += "/c"
	for _, c := range []host.Cgroup{pod, container} {
		if err := h.makeCgroup(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	pod.Quota = 40000
	err = only(h.Limit(t.Context(), pod))
	switch {
	case cpu.unified && err != nil:
		t.Errorf("less than a container has: %v", err)
	case !cpu.unified && (!errors.Is(err, unix.EINVAL) || !strings.Contains(err.Error(), "limited first")):
		t.Errorf("error %v, want one that says what is to be limited first", err)
	}
	// A longer period is more time only with the quota that comes after it.
	pod.Quota, pod.Period = 500000, 1000000
	if err := only(h.Limit(t.Context(), pod)); err != nil {
		t.Error(err)
	}
	files := map[string]string{"cpu.cfs_quota_us": "500000\n", "cpu.cfs_period_us": "1000000\n"}
	if cpu.unified {
		files = map[string]string{"cpu.max": "500000 1000000\n"}
	}
	for file, want := range files {
		if got, err := os.ReadFile(filepath.Join(cpu.at([]string{top, "podq"}), file)); err != nil || string(got) != want {
			t.Errorf("%s is %q, want %q: %v", file, got, want, err)
		}
	}
}

// TestRealLeftoversInASlice: what runs in a pod's slice is killed before systemd stops
// it, and what is to be spared keeps the slice.
func TestRealLeftoversInASlice(t *testing.T) {
	top := fmt.Sprintf("burstlettest%d", os.Getpid())
	_, _ = realCgroups(t)
	said := filepath.Join(t.TempDir(), "said")
	script := filepath.Join(t.TempDir(), "systemctl")
	noError(t, os.WriteFile(script, []byte("#!/bin/sh\necho $1 >>"+said+"\n"), 0o755))
	h := New(Options{RunRoot: fakeTree(t, map[string]string{"systemd/system/": ""}), SystemctlCommand: script})
	hs, err := h.hierarchies()
	noError(t, err)
	t.Cleanup(func() {
		for _, hi := range hs {
			noError(t, removeCgroupTree(context.Background(), hi.at([]string{top + ".slice"}), killed))
		}
	})
	pod := host.Cgroup{Parent: top + "-podu.slice", Systemd: true}
	noError(t, h.makeCgroup(t.Context(), pod))
	process := occupy(t, hs, []string{top + ".slice", pod.Parent})
	noError(t, os.Remove(said))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = h.removeCgroup(ctx, pod, spared)
	if !errors.Is(err, unix.EBUSY) || !strings.Contains(err.Error(), strconv.Itoa(process.Process.Pid)) || exists(said) {
		t.Errorf("a slice with process %d is removed with error %v", process.Process.Pid, err)
	}
	noError(t, only(h.Discard(t.Context(), host.Discard{Cgroup: &pod})))
	wantKilled(t, process)
	if words, err := os.ReadFile(said); err != nil || string(words) != "stop\nrevert\n" {
		t.Errorf("systemd was told %q, %v", words, err)
	}
}
