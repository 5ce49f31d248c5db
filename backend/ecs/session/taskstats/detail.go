package taskstats

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/burstlet/burstlet/backend"
)

// detail is what only cAdvisor's metrics show of a container. A task does not say which
// cgroup it has, nor count what the kernel killed for memory.
func (s *dockerStats) detail() *backend.UsageDetail {
	d := &backend.UsageDetail{
		CPUUser: s.CPU.Usage.User, CPUSystem: s.CPU.Usage.Kernel,
		MemoryCache: s.counter("total_cache", "file"), MemorySwap: s.counter("total_swap", "swap"),
		MemoryMappedFile:   s.counter("total_mapped_file", "file_mapped"),
		MemoryActiveFile:   s.counter("total_active_file", "active_file"),
		MemoryInactiveFile: s.counter("total_inactive_file", "inactive_file"),
		MostMemory:         s.Memory.Most, MemoryFailures: s.Memory.Fails,
	}
	if t := s.CPU.Throttling; t != nil {
		d.CFS = &backend.CFSUsage{Periods: t.Periods, ThrottledPeriods: t.Throttled, ThrottledTime: t.Time}
	}
	disks := map[string]*backend.DiskUsage{}
	for _, b := range s.Blkio.Bytes {
		b.count(disks, func(d *backend.DiskUsage) (*uint64, *uint64) { return &d.ReadBytes, &d.WriteBytes })
	}
	for _, b := range s.Blkio.Operations {
		b.count(disks, func(d *backend.DiskUsage) (*uint64, *uint64) { return &d.Reads, &d.Writes })
	}
	for _, disk := range disks {
		d.Disks = append(d.Disks, *disk)
	}
	slices.SortFunc(d.Disks, func(a, b backend.DiskUsage) int { return cmp.Compare(a.Device, b.Device) })
	return d
}

// count adds an entry to its device, whose name a task cannot know.
func (b dockerBlkio) count(disks map[string]*backend.DiskUsage, of func(*backend.DiskUsage) (read, write *uint64)) {
	device := fmt.Sprintf("%d:%d", b.Major, b.Minor)
	if disks[device] == nil {
		disks[device] = &backend.DiskUsage{Device: device}
	}
	read, write := of(disks[device])
	switch strings.ToLower(b.Op) {
	case "read":
		*read = b.Value
	case "write":
		*write = b.Value
	}
}
