package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// Facts reads /proc, /sys and /etc. What may be missing on a whole host is empty;
// an error means that the host cannot be known.
func (h *Host) Facts(ctx context.Context) (host.Facts, error) {
	f := host.Facts{Now: time.Now(), Arch: runtime.GOARCH, CgroupRoot: h.opts.CgroupRoot, Systemd: h.systemd()}
	stat, err := os.ReadFile(h.proc("stat"))
	if err != nil {
		return host.Facts{}, fmt.Errorf("count CPUs: %w", err)
	}
	f.CPUs = countCPUs(stat)
	memory, err := h.meminfo()
	if err != nil {
		return host.Facts{}, err
	}
	f.Memory, f.Swap = int64(memory["MemTotal"]), int64(memory["SwapTotal"])
	if f.PIDs, err = h.maxPIDs(); err != nil {
		return host.Facts{}, err
	}
	if f.Kernel, err = line(h.proc("sys/kernel/osrelease")); err != nil {
		return host.Facts{}, fmt.Errorf("read the kernel's version: %w", err)
	}
	hostname, err := line(h.proc("sys/kernel/hostname"))
	if err != nil {
		return host.Facts{}, fmt.Errorf("read the host's name: %w", err)
	}
	f.Hostname, _, _ = strings.Cut(hostname, ".")
	if f.OSImage, err = h.osImage(); err != nil {
		return host.Facts{}, fmt.Errorf("read the OS release: %w", err)
	}
	h.identify(&f)
	if f.Addresses, err = h.addresses(); err != nil {
		return host.Facts{}, err
	}
	if f.Kubelets, err = h.kubelets(ctx); err != nil {
		return host.Facts{}, err
	}
	if f.Nodes, err = h.nodes(); err != nil {
		return host.Facts{}, fmt.Errorf("look for the nodes of this host: %w", err)
	}
	if f.Disk, err = filesystem(h.opts.Root); err != nil {
		return host.Facts{}, fmt.Errorf("measure the volumes' file system: %w", err)
	}
	hs, err := h.hierarchies()
	if err != nil {
		f.Lacks = append(f.Lacks, err.Error()+": mount cgroups there (systemd and the package cgroupfs-mount do)")
	}
	f.CgroupV2 = hs.pure()
	f.Controllers = hs.controllers()
	f.SwapLimits = h.swapLimits(hs)
	if f.HugePages, err = h.hugePages(hs); err != nil {
		return host.Facts{}, fmt.Errorf("count the host's huge pages: %w", err)
	}
	f.Lacks = append(f.Lacks, h.lacks(hs)...)
	return f, nil
}

// controllers are those that limit pods and stand in one of the trees.
func (hs hierarchies) controllers() []string {
	return slices.DeleteFunc(slices.Clone(podControllers), func(name string) bool {
		_, ok := hs.with(name)
		return !ok
	})
}

// swapLimits is true where cgroups limit swap (kubelet: checkSwapControllerAvailability).
// The root of version 2 has no such file: our own cgroup and those below the root tell.
func (h *Host) swapLimits(hs hierarchies) bool {
	hi, ok := hs.with(controllerMemory)
	if !ok || !hi.unified {
		return ok && exists(filepath.Join(hi.dir, "memory.memsw.limit_in_bytes"))
	}
	own, err := os.ReadFile(h.proc("self/cgroup"))
	if err == nil {
		_, path, _ := strings.Cut(string(own), "0::")
		if exists(filepath.Join(hi.dir, strings.TrimSpace(path), fileSwapMax)) {
			return true
		}
	}
	below, err := filepath.Glob(filepath.Join(hi.dir, "*", fileSwapMax))
	return err == nil && len(below) > 0
}

func (h *Host) proc(path string) string { return filepath.Join(h.opts.ProcRoot, path) }

// line is the only line of a small file.
func line(path string) (string, error) {
	data, err := os.ReadFile(path)
	return strings.TrimSpace(string(data)), err
}

// countCPUs counts the lines "cpu0", "cpu1", … of /proc/stat: those online.
func countCPUs(stat []byte) int64 {
	var n int64
	for line := range strings.Lines(string(stat)) {
		if len(line) > 3 && strings.HasPrefix(line, "cpu") && line[3] >= '0' && line[3] <= '9' {
			n++
		}
	}
	return n
}

// meminfo reads /proc/meminfo in bytes: "MemTotal:  16316412 kB".
func (h *Host) meminfo() (map[string]uint64, error) {
	data, err := os.ReadFile(h.proc("meminfo"))
	if err != nil {
		return nil, fmt.Errorf("read the host's memory: %w", err)
	}
	out := map[string]uint64{}
	for line := range strings.Lines(string(data)) {
		name, rest, ok := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		if !ok || len(fields) != 2 || fields[1] != "kB" {
			continue // a count of pages
		}
		kib, err := strconv.ParseUint(fields[0], 10, 54)
		if err != nil {
			return nil, fmt.Errorf("read the host's memory: parse %q: %w", strings.TrimSpace(line), err)
		}
		out[name] = kib << 10
	}
	if out["MemTotal"] == 0 {
		return nil, errors.New("read the host's memory: no MemTotal in /proc/meminfo")
	}
	return out, nil
}

// maxPIDs is the least of the kernel's bounds (kubelet: pidlimit.Stats).
func (h *Host) maxPIDs() (int64, error) {
	least := int64(math.MaxInt64)
	for _, name := range []string{"pid_max", "threads-max"} {
		text, err := line(h.proc("sys/kernel/" + name))
		if err != nil {
			return 0, fmt.Errorf("read the bounds of processes: %w", err)
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the bounds of processes: %w", err)
		}
		least = min(least, n)
	}
	return least, nil
}

// osImage is PRETTY_NAME of os-release(5).
func (h *Host) osImage() (string, error) {
	release, err := os.ReadFile(filepath.Join(h.opts.EtcRoot, "os-release"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for line := range strings.Lines(string(release)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			return strings.Trim(value, `"'`), nil
		}
	}
	return "Linux", nil
}

// identify sets the ids that the host has: one that it keeps to itself stays
// empty, as cadvisor leaves it.
func (h *Host) identify(f *host.Facts) {
	first := func(paths ...string) string {
		for _, path := range paths {
			if id, err := line(path); err == nil && id != "" {
				return strings.TrimRight(id, "\x00")
			}
		}
		return ""
	}
	f.MachineID = first(filepath.Join(h.opts.EtcRoot, "machine-id"))
	f.BootID = first(h.proc("sys/kernel/random/boot_id"))
	f.SystemUUID = first(
		filepath.Join(h.opts.SysRoot, "class/dmi/id/product_uuid"),
		h.proc("device-tree/system-id"), h.proc("device-tree/vm,uuid"),
		filepath.Join(h.opts.EtcRoot, "machine-id"),
	)
}
