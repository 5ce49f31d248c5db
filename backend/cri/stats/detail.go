package stats

import (
	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// pressure is what tasks of a cgroup waited for.
func pressure(p host.Pressure) backend.Pressure {
	stalls := func(s *host.Stalls) *backend.Stalls {
		if s == nil {
			return nil
		}
		return &backend.Stalls{Some: backend.StallTime(s.Some), Full: backend.StallTime(s.Full)}
	}
	return backend.Pressure{CPU: stalls(p.CPU), Memory: stalls(p.Memory), IO: stalls(p.IO)}
}

// detail is what the host read of a cgroup beside what the Summary API has.
func detail(path string, c *host.CgroupUsage) *backend.UsageDetail {
	out := &backend.UsageDetail{
		Cgroup: path, CPUUser: c.CPUUser, CPUSystem: c.CPUSystem,
		MemoryCache: c.Cache, MemorySwap: c.Swap, MemoryMappedFile: c.MappedFile,
		MemoryActiveFile: c.ActiveFile, MemoryInactiveFile: c.InactiveFile, MostMemory: c.MostMemory,
		MemoryFailures: c.MemoryFailures, OOMKills: c.OOMKills,
	}
	if c.Periods != nil && c.ThrottledPeriods != nil && c.ThrottledTime != nil {
		out.CFS = &backend.CFSUsage{
			Periods: *c.Periods, ThrottledPeriods: *c.ThrottledPeriods, ThrottledTime: *c.ThrottledTime,
		}
	}
	for _, d := range c.Disks {
		out.Disks = append(out.Disks, backend.DiskUsage(d))
	}
	return out
}
