package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/burstlet/burstlet/backend/cri/host"
)

const (
	controllerBlkio = "blkio"
	// tick is what version 1 counts CPU time in, on every architecture.
	tick = uint64(10 * time.Millisecond)
)

// cgroupPath is a cgroup as cAdvisor names it.
func cgroupPath(levels []string) string { return "/" + strings.Join(levels, "/") }

// measureContainers measures the cgroups of containers below their pod's. Runtimes name
// them by the id: alone, or as in cri-containerd-<id>.scope and crio-<id>.scope.
func (hs hierarchies) measureContainers(pod []string, ids []string) (map[string]host.ContainerUsage, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	names := map[string]string{}
	for _, hi := range hs {
		entries, err := os.ReadDir(hi.at(pod))
		if err != nil && !unknown(err) {
			return nil, err
		}
		for _, e := range entries {
			if e.IsDir() {
				name := strings.TrimSuffix(e.Name(), ".scope")
				names[name[strings.LastIndex(name, "-")+1:]] = e.Name()
			}
		}
		if len(names) > 0 {
			break
		}
	}
	out := make(map[string]host.ContainerUsage, len(ids))
	for _, id := range ids {
		name, there := names[id]
		if !there {
			continue
		}
		levels := append(slices.Clip(pod), name)
		u, err := hs.measure(levels)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, fmt.Errorf("measure container %s: %w", id, err)
		default:
			out[id] = host.ContainerUsage{Path: cgroupPath(levels), CgroupUsage: u}
		}
	}
	return out, nil
}

// measureDetail reads what only cAdvisor's metrics show. What a cgroup does not have is
// unknown.
func (hs hierarchies) measureDetail(levels []string, d *host.CgroupDetail) error {
	type part struct {
		controller string
		v1, v2     func(dir string, d *host.CgroupDetail) error
	}
	for _, p := range []part{
		{controllerCPU, throttledV1, cpuV2},
		{controllerCPUAcct, cpuTimesV1, nil},
		{controllerMemory, memoryDetailV1, memoryDetailV2},
		{controllerBlkio, disksV1, nil},
		{"io", nil, disksV2},
	} {
		hi, ok := hs.with(p.controller)
		read := p.v1
		if hi.unified {
			read = p.v2
		}
		if !ok || read == nil {
			continue
		}
		if err := read(hi.at(levels), d); err != nil && !unknown(err) {
			return err
		}
	}
	return nil
}

func throttledV1(dir string, d *host.CgroupDetail) error {
	stat, err := numbers(filepath.Join(dir, "cpu.stat"))
	d.Periods, d.ThrottledPeriods = known(stat, "nr_periods"), known(stat, "nr_throttled")
	d.ThrottledTime = known(stat, "throttled_time")
	return err
}

func cpuTimesV1(dir string, d *host.CgroupDetail) error {
	stat, err := numbers(filepath.Join(dir, "cpuacct.stat"))
	d.CPUUser, d.CPUSystem = times(known(stat, "user"), tick), times(known(stat, "system"), tick)
	return err
}

func cpuV2(dir string, d *host.CgroupDetail) error {
	stat, err := numbers(filepath.Join(dir, "cpu.stat"))
	const micro = uint64(time.Microsecond)
	d.CPUUser, d.CPUSystem = times(known(stat, "user_usec"), micro), times(known(stat, "system_usec"), micro)
	d.Periods, d.ThrottledPeriods = known(stat, "nr_periods"), known(stat, "nr_throttled")
	d.ThrottledTime = times(known(stat, "throttled_usec"), micro)
	return err
}

func times(n *uint64, unit uint64) *uint64 {
	if n == nil {
		return nil
	}
	return new(*n * unit)
}

func memoryDetailV1(dir string, d *host.CgroupDetail) error {
	stat, err := numbers(filepath.Join(dir, "memory.stat"))
	if err != nil {
		return err
	}
	d.Cache, d.Swap, d.MappedFile = known(stat, "total_cache"), known(stat, "total_swap"), known(stat, "total_mapped_file")
	d.ActiveFile, d.InactiveFile = known(stat, "total_active_file"), known(stat, "total_inactive_file")
	control, err := numbers(filepath.Join(dir, "memory.oom_control"))
	if err != nil && !unknown(err) {
		return err
	}
	d.OOMKills = known(control, "oom_kill")
	return numbersOf(
		dir, map[string]**uint64{"memory.max_usage_in_bytes": &d.MostMemory, "memory.failcnt": &d.MemoryFailures},
	)
}

func memoryDetailV2(dir string, d *host.CgroupDetail) error {
	stat, err := numbers(filepath.Join(dir, "memory.stat"))
	if err != nil {
		return err
	}
	d.Cache, d.MappedFile = known(stat, "file"), known(stat, "file_mapped")
	d.ActiveFile, d.InactiveFile = known(stat, "active_file"), known(stat, "inactive_file")
	events, err := numbers(filepath.Join(dir, "memory.events"))
	if err != nil && !unknown(err) {
		return err
	}
	d.MemoryFailures, d.OOMKills = known(events, "max"), known(events, "oom_kill")
	return numbersOf(dir, map[string]**uint64{"memory.swap.current": &d.Swap, "memory.peak": &d.MostMemory})
}

// numbersOf reads files of one number each.
func numbersOf(dir string, files map[string]**uint64) error {
	for name, value := range files {
		n, err := maybe(number(filepath.Join(dir, name)))
		if err != nil {
			return err
		}
		*value = n
	}
	return nil
}

// disksV2 reads lines as "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0".
func disksV2(dir string, d *host.CgroupDetail) error {
	data, err := os.ReadFile(filepath.Join(dir, "io.stat"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue // a device without counts
		}
		disk := host.Disk{Device: fields[0]}
		for _, field := range fields[1:] {
			name, value, _ := strings.Cut(field, "=")
			counter := map[string]*uint64{
				"rbytes": &disk.ReadBytes, "wbytes": &disk.WriteBytes, "rios": &disk.Reads, "wios": &disk.Writes,
			}[name]
			if counter == nil {
				continue
			}
			if *counter, err = strconv.ParseUint(value, 10, 64); err != nil {
				return fmt.Errorf("parse %q of io.stat: %w", strings.TrimSpace(line), err)
			}
		}
		d.Disks = append(d.Disks, disk)
	}
	return nil
}

// disksV1 reads lines as "8:0 Read 4096". The throttling layer sees all devices; its
// files count what is below the cgroup, too, where the kernel can.
func disksV1(dir string, d *host.CgroupDetail) error {
	bytes, err := disksFile(dir, "blkio.throttle.io_service_bytes")
	if err != nil {
		return err
	}
	operations, err := disksFile(dir, "blkio.throttle.io_serviced")
	if err != nil {
		return err
	}
	for device := range bytes {
		b, o := bytes[device], operations[device]
		d.Disks = append(d.Disks, host.Disk{
			Device: device, ReadBytes: b["Read"], WriteBytes: b["Write"], Reads: o["Read"], Writes: o["Write"],
		})
	}
	slices.SortFunc(d.Disks, func(a, b host.Disk) int { return strings.Compare(a.Device, b.Device) })
	return nil
}

func disksFile(dir, name string) (map[string]map[string]uint64, error) {
	data, err := os.ReadFile(filepath.Join(dir, name+"_recursive"))
	if errors.Is(err, fs.ErrNotExist) {
		data, err = os.ReadFile(filepath.Join(dir, name))
	}
	if err != nil {
		return nil, err
	}
	out := map[string]map[string]uint64{}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue // the sum
		}
		n, err := strconv.ParseUint(fields[2], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("parse %q of %s: %w", strings.TrimSpace(line), name, err)
		}
		if out[fields[0]] == nil {
			out[fields[0]] = map[string]uint64{}
		}
		out[fields[0]][fields[1]] = n
	}
	return out, nil
}

// nameDisks puts the names of devices in the place of their numbers; one without a
// name keeps them.
func (h *Host) nameDisks(u *host.Usage) error {
	lists := [][]host.Disk{u.Node.Disks}
	for _, pod := range u.Pods {
		lists = append(lists, pod.Disks)
		for _, c := range pod.Containers {
			lists = append(lists, c.Disks)
		}
	}
	if !slices.ContainsFunc(lists, func(l []host.Disk) bool { return len(l) > 0 }) {
		return nil
	}
	data, err := os.ReadFile(h.proc("diskstats"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	names := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 2 {
			names[fields[0]+":"+fields[1]] = "/dev/" + fields[2]
		}
	}
	for _, list := range lists {
		for i := range list {
			if name, ok := names[list[i].Device]; ok {
				list[i].Device = name
			}
		}
	}
	return nil
}
