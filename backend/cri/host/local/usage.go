package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// Usage measures the host and the pods that have a cgroup. Disks are walked at
// most once a minute for each pod, and for a fraction of a second in one call: a
// large volume is measured in several.
func (h *Host) Usage(ctx context.Context, r host.UsageRequest) (host.Usage, error) {
	hs, err := h.hierarchies()
	if err != nil {
		return host.Usage{}, err
	}
	disks, err := h.measureDisks(ctx, r.Pods)
	if err != nil {
		return host.Usage{}, err
	}
	// Rates are made of this time: what takes long stands before it.
	u := host.Usage{Now: time.Now(), Pods: make(map[string]host.PodUsage, len(r.Pods))}
	if err := h.measureHost(&u, hs, r); err != nil {
		return host.Usage{}, err
	}
	for _, p := range r.Pods {
		if err := ctx.Err(); err != nil {
			return host.Usage{}, fmt.Errorf("measure pods: %w", err)
		}
		levels, err := cgroupLevels(p.Cgroup)
		if err != nil {
			return host.Usage{}, fmt.Errorf("measure pod %s: %w", p.UID, err)
		}
		c, err := hs.measure(levels)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return host.Usage{}, fmt.Errorf("measure pod %s: %w", p.UID, err)
		}
		pod := disks[p.UID]
		pod.CgroupUsage, pod.Path = c, cgroupPath(levels)
		if pod.Containers, err = hs.measureContainers(levels, p.Containers); err != nil {
			return host.Usage{}, fmt.Errorf("measure containers of pod %s: %w", p.UID, err)
		}
		if pod.Network, err = h.podInterfaces(p.NetPID, levels); err != nil {
			return host.Usage{}, fmt.Errorf("measure pod %s: %w", p.UID, err)
		}
		u.Pods[p.UID] = pod
	}
	if err := h.nameDisks(&u); err != nil {
		return host.Usage{}, fmt.Errorf("name the host's disks: %w", err)
	}
	return u, nil
}

func (h *Host) measureHost(u *host.Usage, hs hierarchies, r host.UsageRequest) (err error) {
	if u.Node, err = h.measureNode(hs); err != nil {
		return fmt.Errorf("measure the host: %w", err)
	}
	if u.Network, err = h.interfaces("net"); err != nil {
		return fmt.Errorf("measure the host's network: %w", err)
	}
	root := r.Root
	if root == "" {
		root = h.opts.Root
	}
	if u.Root, err = filesystem(root); err != nil {
		return fmt.Errorf("measure the volumes' file system: %w", err)
	}
	if r.Images != "" {
		if u.Images, err = filesystem(r.Images); err != nil {
			return fmt.Errorf("measure the images' file system: %w", err)
		}
		if u.ImagesApart, err = apart(root, r.Images); err != nil {
			return fmt.Errorf("compare the file systems of volumes and of images: %w", err)
		}
	}
	if err := measurePodsCgroup(u, hs, r.PodsCgroup); err != nil {
		return fmt.Errorf("measure the cgroup above all pods: %w", err)
	}
	if u.Processes, u.MaxProcesses, err = h.processes(); err != nil {
		return fmt.Errorf("count the host's processes: %w", err)
	}
	return nil
}

// measurePodsCgroup leaves out one that is not there: no pod was ever made.
func measurePodsCgroup(u *host.Usage, hs hierarchies, pods host.Cgroup) error {
	if pods.Parent == "" {
		return nil
	}
	levels, err := levelsOf(pods)
	if err != nil {
		return err
	}
	usage, err := hs.measure(levels)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		u.PodsCgroup = &usage
	}
	return nil
}

// apart is true of two paths, or the nearest parents that are there, on different devices.
func apart(a, b string) (bool, error) {
	x, err := device(a)
	if err != nil {
		return false, err
	}
	y, err := device(b)
	return x != y, err
}

func device(path string) (uint64, error) {
	for {
		var s unix.Stat_t
		err := unix.Stat(path, &s)
		switch {
		case err == nil:
			return s.Dev, nil
		case errors.Is(err, fs.ErrNotExist) && filepath.Dir(path) != path:
			path = filepath.Dir(path)
		default:
			return 0, &fs.PathError{Op: "stat", Path: path, Err: err}
		}
	}
}

// measureNode measures the root cgroup, and reads /proc for what it does not
// tell, as a kubelet does: in version 2 nothing is charged to the root.
func (h *Host) measureNode(hs hierarchies) (host.CgroupUsage, error) {
	var u host.CgroupUsage
	stat, err := os.ReadFile(h.proc("stat"))
	if err != nil {
		return u, err
	}
	if u.StartTime, err = bootTime(stat); err != nil {
		return u, err
	}
	memory, err := h.meminfo()
	if err != nil {
		return u, err
	}
	if u.CPUNanoseconds, err = hs.cpuTime(nil); err != nil {
		return u, err
	}
	if u.CPUNanoseconds == nil {
		if u.CPUNanoseconds, err = cpuTicks(stat); err != nil {
			return u, err
		}
	}
	if err := hs.measureMemory(nil, &u); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return u, err
	}
	if err := hs.measureDetail(nil, &u.CgroupDetail); err != nil {
		return u, err
	}
	if u.Pressure, err = hs.pressure(nil); err != nil {
		return u, err
	}
	if u.Memory == nil {
		used := less(memory["MemTotal"], memory["MemFree"])
		u.Memory, u.WorkingSet = new(used), new(less(used, memory["Inactive(file)"]))
		u.RSS = new(memory["AnonPages"])
	}
	if u.Cache == nil {
		u.Cache = known(memory, "Cached")
	}
	if u.Swap == nil {
		u.Swap = new(less(memory["SwapTotal"], memory["SwapFree"]))
	}
	u.MemoryLimit = new(memory["MemTotal"])
	faults, err := numbers(h.proc("vmstat"))
	if err != nil {
		return u, err
	}
	u.PageFaults, u.MajorPageFaults = known(faults, "pgfault"), known(faults, "pgmajfault")
	u.OOMKills = known(faults, "oom_kill") // of the whole host
	return u, nil
}

// less is a minus b, not below zero: the two were not read at once.
func less(a, b uint64) uint64 { return a - min(a, b) }

// known is a value of a map, nil where there is none.
func known(values map[string]uint64, name string) *uint64 {
	if v, ok := values[name]; ok {
		return &v
	}
	return nil
}

func bootTime(stat []byte) (time.Time, error) {
	for line := range strings.Lines(string(stat)) {
		if value, ok := strings.CutPrefix(line, "btime "); ok {
			seconds, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return time.Unix(seconds, 0), err
		}
	}
	return time.Time{}, errors.New("no btime in /proc/stat")
}

// cpuTicks are the times of the first line of /proc/stat that are work, in
// nanoseconds: a tick is 10 ms on every architecture. Guests' are the user's.
func cpuTicks(stat []byte) (*uint64, error) {
	first, _, _ := strings.Cut(string(stat), "\n")
	fields := strings.Fields(first)
	if len(fields) < 8 || fields[0] != "cpu" {
		return nil, fmt.Errorf("parse %q of /proc/stat", first)
	}
	var sum uint64
	for i, field := range fields[1:8] {
		if i == 3 || i == 4 { // idle, waiting for a disk
			continue
		}
		ticks, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("parse %q of /proc/stat: %w", first, err)
		}
		sum += ticks
	}
	return new(sum * uint64(10*time.Millisecond)), nil
}

// processes are all tasks of the kernel, and the most that it allows (kubelet:
// pkg/kubelet/stats/pidlimit).
func (h *Host) processes() (now, most uint64, err error) {
	load, err := words(h.proc("loadavg")) // 0.19 0.41 1.35 1/94 27437
	if err != nil {
		return 0, 0, err
	}
	if len(load) < 4 {
		return 0, 0, fmt.Errorf("parse %q of /proc/loadavg", strings.Join(load, " "))
	}
	_, all, _ := strings.Cut(load[3], "/")
	if now, err = strconv.ParseUint(all, 10, 64); err != nil {
		return 0, 0, err
	}
	for _, file := range []string{"sys/kernel/pid_max", "sys/kernel/threads-max"} {
		limit, err := number(h.proc(file))
		if err != nil {
			return 0, 0, err
		}
		if most == 0 || limit < most {
			most = limit
		}
	}
	return now, most, nil
}

// number is the only one of a small file.
func number(path string) (uint64, error) {
	text, err := line(path)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", path, err)
	}
	return n, nil
}

// numbers reads lines of a name and a number; others are passed over.
func numbers(path string) (map[string]uint64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := map[string]uint64{}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			out[name] = n
		}
	}
	return out, nil
}

// filesystem is that of a path, or of the nearest parent that is there.
func filesystem(path string) (host.Filesystem, error) {
	for {
		var s unix.Statfs_t
		err := unix.Statfs(path, &s)
		switch {
		case err == nil:
			return fromStatfs(&s), nil
		case errors.Is(err, fs.ErrNotExist) && filepath.Dir(path) != path:
			path = filepath.Dir(path)
		default:
			return host.Filesystem{}, &fs.PathError{Op: "statfs", Path: path, Err: err}
		}
	}
}

func fromStatfs(s *unix.Statfs_t) host.Filesystem {
	block := uint64(s.Bsize)
	if s.Frsize > 0 {
		block = uint64(s.Frsize)
	}
	return host.Filesystem{
		Capacity: s.Blocks * block, Available: s.Bavail * block, Used: less(s.Blocks, s.Bfree) * block,
		Inodes: s.Files, InodesFree: s.Ffree, InodesUsed: less(s.Files, s.Ffree),
	}
}
