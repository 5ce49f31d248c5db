package stats

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/burstlet/burstlet/backend"
)

func cpuOf(u *backend.Usage) *statsv1alpha1.CPUStats {
	if u.CPUNanoCores == nil && u.CPUCoreNanoSeconds == nil {
		return nil
	}
	return &statsv1alpha1.CPUStats{
		Time: metav1.NewTime(u.Time), UsageNanoCores: u.CPUNanoCores, UsageCoreNanoSeconds: u.CPUCoreNanoSeconds,
		PSI: psiOf(u.Pressure.CPU),
	}
}

// ioOf is there for what waits alone, as a kubelet's: it has nothing else.
func ioOf(u *backend.Usage) *statsv1alpha1.IOStats {
	if u.Pressure.IO == nil {
		return nil
	}
	return &statsv1alpha1.IOStats{Time: metav1.NewTime(u.Time), PSI: psiOf(u.Pressure.IO)}
}

// psiOf has microseconds, as a kubelet's that reads them of cAdvisor.
func psiOf(s *backend.Stalls) *statsv1alpha1.PSIStats {
	if s == nil {
		return nil
	}
	return &statsv1alpha1.PSIStats{Full: statsv1alpha1.PSIData(s.Full), Some: statsv1alpha1.PSIData(s.Some)}
}

func memoryOf(u *backend.Usage) *statsv1alpha1.MemoryStats {
	if u.MemoryUsage == nil && u.MemoryWorkingSet == nil && u.MemoryRSS == nil {
		return nil
	}
	return &statsv1alpha1.MemoryStats{
		Time: metav1.NewTime(u.Time), AvailableBytes: u.MemoryAvailable, UsageBytes: u.MemoryUsage,
		WorkingSetBytes: u.MemoryWorkingSet, RSSBytes: u.MemoryRSS, PageFaults: u.PageFaults,
		MajorPageFaults: u.MajorPageFaults, PSI: psiOf(u.Pressure.Memory),
	}
}

func fsOf(at time.Time, f *backend.FilesystemUsage) *statsv1alpha1.FsStats {
	if f == nil {
		return nil
	}
	return &statsv1alpha1.FsStats{
		Time: metav1.NewTime(at), AvailableBytes: f.Available, CapacityBytes: f.Capacity, UsedBytes: f.Used,
		InodesFree: f.InodesFree, Inodes: f.Inodes, InodesUsed: f.InodesUsed,
	}
}

// networkOf are all interfaces, and the first as the default one.
func networkOf(u *backend.Usage) *statsv1alpha1.NetworkStats {
	if len(u.Network) == 0 {
		return nil
	}
	out := &statsv1alpha1.NetworkStats{Time: metav1.NewTime(u.Time)}
	for _, n := range u.Network {
		out.Interfaces = append(out.Interfaces, statsv1alpha1.InterfaceStats{
			Name: n.Name, RxBytes: n.RxBytes, RxErrors: n.RxErrors, TxBytes: n.TxBytes, TxErrors: n.TxErrors,
		})
	}
	out.InterfaceStats = out.Interfaces[0]
	return out
}

// sum adds what is known; nil where nothing is.
func sum(parts []*backend.ContainerStats, field func(*backend.Usage) *uint64) *uint64 {
	var total *uint64
	for _, p := range parts {
		if n := field(&p.Usage); n != nil {
			if total == nil {
				total = new(uint64(0))
			}
			*total += *n
		}
	}
	return total
}

// latest is when the last of the parts was measured.
func latest(parts []*backend.ContainerStats) time.Time {
	var at time.Time
	for _, p := range parts {
		if p.Time.After(at) {
			at = p.Time
		}
	}
	return at
}

func sumCPU(parts []*backend.ContainerStats) *statsv1alpha1.CPUStats {
	return cpuOf(&backend.Usage{
		Time:               latest(parts),
		CPUNanoCores:       sum(parts, func(u *backend.Usage) *uint64 { return u.CPUNanoCores }),
		CPUCoreNanoSeconds: sum(parts, func(u *backend.Usage) *uint64 { return u.CPUCoreNanoSeconds }),
	})
}

func sumMemory(parts []*backend.ContainerStats) *statsv1alpha1.MemoryStats {
	total := backend.Usage{
		Time:             latest(parts),
		MemoryAvailable:  sum(parts, func(u *backend.Usage) *uint64 { return u.MemoryAvailable }),
		MemoryUsage:      sum(parts, func(u *backend.Usage) *uint64 { return u.MemoryUsage }),
		MemoryWorkingSet: sum(parts, func(u *backend.Usage) *uint64 { return u.MemoryWorkingSet }),
		MemoryRSS:        sum(parts, func(u *backend.Usage) *uint64 { return u.MemoryRSS }),
		PageFaults:       sum(parts, func(u *backend.Usage) *uint64 { return u.PageFaults }),
		MajorPageFaults:  sum(parts, func(u *backend.Usage) *uint64 { return u.MajorPageFaults }),
	}
	for _, p := range parts {
		if p.MemoryAvailable == nil {
			total.MemoryAvailable = nil // one without limit leaves the pod without
		}
	}
	return memoryOf(&total)
}

// sumStorage is what the containers' layers and logs take; local volumes are not
// known here. The filesystem is that of the first layer.
func sumStorage(parts []*backend.ContainerStats) *statsv1alpha1.FsStats {
	total := backend.FilesystemUsage{
		Used:       add(sum(parts, used(rootfs)), sum(parts, used(logs))),
		InodesUsed: add(sum(parts, inodes(rootfs)), sum(parts, inodes(logs))),
	}
	if total.Used == nil {
		return nil
	}
	for _, p := range parts {
		if p.Rootfs != nil {
			total.Available, total.Capacity = p.Rootfs.Available, p.Rootfs.Capacity
			total.InodesFree, total.Inodes = p.Rootfs.InodesFree, p.Rootfs.Inodes
			break
		}
	}
	return fsOf(latest(parts), &total)
}

func rootfs(u *backend.Usage) *backend.FilesystemUsage { return u.Rootfs }
func logs(u *backend.Usage) *backend.FilesystemUsage   { return u.Logs }

func used(of func(*backend.Usage) *backend.FilesystemUsage) func(*backend.Usage) *uint64 {
	return func(u *backend.Usage) *uint64 {
		if f := of(u); f != nil {
			return f.Used
		}
		return nil
	}
}

func inodes(of func(*backend.Usage) *backend.FilesystemUsage) func(*backend.Usage) *uint64 {
	return func(u *backend.Usage) *uint64 {
		if f := of(u); f != nil {
			return f.InodesUsed
		}
		return nil
	}
}

func add(a, b *uint64) *uint64 {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return new(*a + *b)
}
