package stats

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/burstlet/burstlet/backend"
)

// family is one of cAdvisor's metrics, with its help text.
type family struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	values func(*series) []labeled
}

// labeled is a value with those labels that its family has beside all others.
type labeled struct {
	value  float64
	labels []string
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
	nano    = float64(time.Second)
)

// families are what a kubelet includes of cAdvisor's metrics, as far as a backend can
// know it (kubelet: Server.InstallAuthNotRequiredHandlers, includedMetrics).
var families = []family{
	of("container_cpu_usage_seconds_total", "Cumulative cpu time consumed in seconds.", counter, nano,
		func(u *backend.Usage, _ *backend.UsageDetail) *uint64 { return u.CPUCoreNanoSeconds }, "cpu", "total"),
	of("container_cpu_user_seconds_total", "Cumulative user cpu time consumed in seconds.", counter, nano,
		func(_ *backend.Usage, d *backend.UsageDetail) *uint64 { return d.CPUUser }),
	of("container_cpu_system_seconds_total", "Cumulative system cpu time consumed in seconds.", counter, nano,
		func(_ *backend.Usage, d *backend.UsageDetail) *uint64 { return d.CPUSystem }),
	limited("container_cpu_cfs_periods_total", "Number of elapsed enforcement period intervals.", 1,
		func(c *backend.CFSUsage) uint64 { return c.Periods }),
	limited("container_cpu_cfs_throttled_periods_total", "Number of throttled period intervals.", 1,
		func(c *backend.CFSUsage) uint64 { return c.ThrottledPeriods }),
	limited("container_cpu_cfs_throttled_seconds_total", "Total time duration the container has been throttled.", nano,
		func(c *backend.CFSUsage) uint64 { return c.ThrottledTime }),
	of("container_memory_usage_bytes", "Current memory usage in bytes, including all memory regardless of when it was "+
		"accessed", gauge, 1,
		func(u *backend.Usage, _ *backend.UsageDetail) *uint64 { return u.MemoryUsage }),
	of("container_memory_working_set_bytes", "Current working set in bytes.", gauge, 1,
		func(u *backend.Usage, _ *backend.UsageDetail) *uint64 { return u.MemoryWorkingSet }),
	of("container_memory_rss", "Size of RSS in bytes.", gauge, 1,
		func(u *backend.Usage, _ *backend.UsageDetail) *uint64 { return u.MemoryRSS }),
	of("container_memory_cache", "Number of bytes of page cache memory.", gauge, 1,
		func(_ *backend.Usage, d *backend.UsageDetail) *uint64 { return d.MemoryCache }),
	of("container_memory_swap", "Container swap usage in bytes.", gauge, 1,
		func(_ *backend.Usage, d *backend.UsageDetail) *uint64 { return d.MemorySwap }),
	of("container_memory_mapped_file", "Size of memory mapped files in bytes.", gauge, 1,
		func(_ *backend.Usage, d *backend.UsageDetail) *uint64 { return d.MemoryMappedFile }),
	of("container_memory_total_active_file_bytes", "Current total active file in bytes.", gauge, 1,
		func(_ *backend.Usage, d *backend.UsageDetail) *uint64 { return d.MemoryActiveFile }),
	of("container_memory_total_inactive_file_bytes", "Current total inactive file in bytes.", gauge, 1,
		func(_ *backend.Usage, d *backend.UsageDetail) *uint64 { return d.MemoryInactiveFile }),
	of("container_memory_max_usage_bytes", "Maximum memory usage recorded in bytes", gauge, 1,
		func(_ *backend.Usage, d *backend.UsageDetail) *uint64 { return d.MostMemory }),
	of("container_memory_failcnt", "Number of memory usage hits limits", counter, 1,
		func(_ *backend.Usage, d *backend.UsageDetail) *uint64 { return d.MemoryFailures }),
	{cadvisorDesc(
		"container_memory_failures_total", "Cumulative count of memory allocation failures.", "failure_type", "scope",
	), counter, faults},
	of("container_oom_events_total", "Count of out of memory events observed for the container", counter, 1,
		func(_ *backend.Usage, d *backend.UsageDetail) *uint64 { return d.OOMKills }),
	of("container_processes", "Number of processes running inside the container.", gauge, 1,
		func(u *backend.Usage, _ *backend.UsageDetail) *uint64 { return u.Processes }),
	waited("cpu", "CPU", func(p *backend.Pressure) *backend.Stalls { return p.CPU }),
	stalled("cpu", "CPU", func(p *backend.Pressure) *backend.Stalls { return p.CPU }),
	waited("memory", "memory", func(p *backend.Pressure) *backend.Stalls { return p.Memory }),
	stalled("memory", "memory", func(p *backend.Pressure) *backend.Stalls { return p.Memory }),
	waited("io", "IO", func(p *backend.Pressure) *backend.Stalls { return p.IO }),
	stalled("io", "IO", func(p *backend.Pressure) *backend.Stalls { return p.IO }),
	filesystem("container_fs_usage_bytes", "Number of bytes that are consumed by the container on this filesystem.",
		func(f *backend.FilesystemUsage) *uint64 { return f.Used }),
	filesystem("container_fs_limit_bytes", "Number of bytes that can be consumed by the container on this filesystem.",
		func(f *backend.FilesystemUsage) *uint64 { return f.Capacity }),
	filesystem("container_fs_inodes_free", "Number of available Inodes",
		func(f *backend.FilesystemUsage) *uint64 { return f.InodesFree }),
	filesystem("container_fs_inodes_total", "Number of Inodes",
		func(f *backend.FilesystemUsage) *uint64 { return f.Inodes }),
	disk(
		"container_fs_reads_bytes_total", "Cumulative count of bytes read",
		func(d *backend.DiskUsage) uint64 { return d.ReadBytes },
	),
	disk(
		"container_fs_writes_bytes_total", "Cumulative count of bytes written",
		func(d *backend.DiskUsage) uint64 { return d.WriteBytes },
	),
	disk(
		"container_fs_reads_total", "Cumulative count of reads completed",
		func(d *backend.DiskUsage) uint64 { return d.Reads },
	),
	disk(
		"container_fs_writes_total", "Cumulative count of writes completed",
		func(d *backend.DiskUsage) uint64 { return d.Writes },
	),
	network("receive_bytes", "bytes received", func(i *backend.InterfaceUsage) *uint64 { return i.RxBytes }),
	network("receive_packets", "packets received", func(i *backend.InterfaceUsage) *uint64 { return i.RxPackets }),
	network(
		"receive_packets_dropped", "packets dropped while receiving",
		func(i *backend.InterfaceUsage) *uint64 { return i.RxDropped },
	),
	network(
		"receive_errors", "errors encountered while receiving", func(i *backend.InterfaceUsage) *uint64 { return i.RxErrors },
	),
	network("transmit_bytes", "bytes transmitted", func(i *backend.InterfaceUsage) *uint64 { return i.TxBytes }),
	network("transmit_packets", "packets transmitted", func(i *backend.InterfaceUsage) *uint64 { return i.TxPackets }),
	network(
		"transmit_packets_dropped", "packets dropped while transmitting",
		func(i *backend.InterfaceUsage) *uint64 { return i.TxDropped },
	),
	network(
		"transmit_errors", "errors encountered while transmitting",
		func(i *backend.InterfaceUsage) *uint64 { return i.TxErrors },
	),
}

var noDetail backend.UsageDetail

func (s *series) detail() *backend.UsageDetail {
	if s.usage.Detail == nil {
		return &noDetail
	}
	return s.usage.Detail
}

// of is a family of one value in units of the divisor; label and its value are beside
// the others' where given.
func of(name, help string, kind prometheus.ValueType, divisor float64,
	field func(*backend.Usage, *backend.UsageDetail) *uint64, label ...string,
) family {
	var names, value []string
	if len(label) == 2 {
		names, value = label[:1], label[1:]
	}
	return family{cadvisorDesc(name, help, names...), kind, func(s *series) []labeled {
		n := field(s.usage, s.detail())
		if n == nil {
			return nil
		}
		return []labeled{{float64(*n) / divisor, value}}
	}}
}

// micro is what stalls are counted in.
const micro = float64(time.Second / time.Microsecond)

// waited is how long some tasks waited for a resource.
func waited(resource, congested string, stalls func(*backend.Pressure) *backend.Stalls) family {
	return of("container_pressure_"+resource+"_waiting_seconds_total",
		"Total time duration tasks in the container have waited due to "+congested+" congestion.", counter, micro,
		func(u *backend.Usage, _ *backend.UsageDetail) *uint64 {
			if s := stalls(&u.Pressure); s != nil {
				return &s.Some.Total
			}
			return nil
		})
}

// stalled is how long all tasks waited for it.
func stalled(resource, congested string, stalls func(*backend.Pressure) *backend.Stalls) family {
	return of("container_pressure_"+resource+"_stalled_seconds_total",
		"Total time duration no tasks in the container could make progress due to "+congested+" congestion.", counter, micro,
		func(u *backend.Usage, _ *backend.UsageDetail) *uint64 {
			if s := stalls(&u.Pressure); s != nil {
				return &s.Full.Total
			}
			return nil
		})
}

// limited is there for containers with a CPU limit alone.
func limited(name, help string, divisor float64, field func(*backend.CFSUsage) uint64) family {
	return family{cadvisorDesc(name, help), counter, func(s *series) []labeled {
		c := s.detail().CFS
		if c == nil || s.resources == nil || s.resources.Limits.Cpu().IsZero() {
			return nil
		}
		return []labeled{{float64(field(c)) / divisor, nil}}
	}}
}

// faults are known of a cgroup with those below it.
func faults(s *series) (out []labeled) {
	if n := s.usage.PageFaults; n != nil {
		out = append(out, labeled{float64(*n), []string{"pgfault", "hierarchy"}})
	}
	if n := s.usage.MajorPageFaults; n != nil {
		out = append(out, labeled{float64(*n), []string{"pgmajfault", "hierarchy"}})
	}
	return out
}

// filesystem is that of the host's root, or of a container's writable layer. Backends do
// not say on which device it is.
func filesystem(name, help string, field func(*backend.FilesystemUsage) *uint64) family {
	return family{cadvisorDesc(name, help, "device"), gauge, func(s *series) []labeled {
		if s.usage.Rootfs == nil {
			return nil
		}
		n := field(s.usage.Rootfs)
		if n == nil {
			return nil
		}
		return []labeled{{float64(*n), []string{""}}}
	}}
}

func disk(name, help string, field func(*backend.DiskUsage) uint64) family {
	return family{cadvisorDesc(name, help, "device"), counter, func(s *series) (out []labeled) {
		disks := s.detail().Disks
		for i := range disks {
			out = append(out, labeled{float64(field(&disks[i])), []string{disks[i].Device}})
		}
		return out
	}}
}

func network(name, help string, field func(*backend.InterfaceUsage) *uint64) family {
	desc := cadvisorDesc("container_network_"+name+"_total", "Cumulative count of "+help, "interface")
	return family{desc, counter, func(s *series) (out []labeled) {
		for i := range s.network {
			if n := field(&s.network[i]); n != nil {
				out = append(out, labeled{float64(*n), []string{s.network[i].Name}})
			}
		}
		return out
	}}
}
