package backend

import (
	"context"
	"time"
)

// Stats measures what pods and their host use.
type Stats interface {
	// Stats measures all pods of this node that run, in as few calls as the
	// remote allows. A pod that could not be measured is left out. Errors mean
	// that nothing is known.
	Stats(ctx context.Context) (StatsFacts, error)
}

// StatsFacts is one measurement of everything.
type StatsFacts struct {
	// Node is what the pods' host uses as a whole; nil where nobody can say.
	Node *Usage
	// Images is the file system of images; nil where nobody can say.
	Images *FilesystemUsage
	Pods   []PodStats
}

// PodStats is what one attempt of a pod uses.
type PodStats struct {
	Ref
	// Usage is the pod's as a whole; its CPU and memory may be absent, and are
	// then the sum of its containers'.
	Usage
	Containers []ContainerStats
	// Volumes are the pod's, by name, those in memory among them; nil where nobody
	// can say.
	Volumes map[string]FilesystemUsage
	// SandboxImage is the image of what holds the pod's network; empty where there is none.
	SandboxImage string
}

// ContainerStats is what one running container uses.
type ContainerStats struct {
	Name    string
	Attempt int
	Usage
}

// Usage is a measurement. Nil is unknown. The fields mean what those of the
// kubelet's Summary API mean (k8s.io/kubelet/pkg/apis/stats/v1alpha1).
type Usage struct {
	// Time is when it was measured, StartTime since when counters count; both in
	// the caller's clock.
	Time, StartTime time.Time
	// CPUNanoCores is the rate of late, CPUCoreNanoSeconds the sum since
	// StartTime.
	CPUNanoCores, CPUCoreNanoSeconds *uint64
	// Memory in bytes; available is what the limit leaves, nil without limit.
	MemoryAvailable, MemoryUsage, MemoryWorkingSet, MemoryRSS *uint64
	// Page faults since StartTime.
	PageFaults, MajorPageFaults *uint64
	// Rootfs is the writable layer, or the host's root; Logs its logs;
	// EphemeralStorage a pod's sum of both and of its local volumes.
	Rootfs, Logs, EphemeralStorage *FilesystemUsage
	// Network are the interfaces, the default one first; nil for containers.
	Network []InterfaceUsage
	// Processes is how many there are; nil for containers.
	Processes *uint64
	// Pressure is what tasks waited for.
	Pressure Pressure
	// Detail is what only cAdvisor's metrics show; nil where nobody can say.
	Detail *UsageDetail
}

// Pressure is how long tasks waited for a resource (the kernel's pressure stall information);
// nil where nobody can say.
type Pressure struct{ CPU, Memory, IO *Stalls }

// Stalls is the time in which some of the tasks waited, and in which all did.
type Stalls struct{ Some, Full StallTime }

// StallTime is in microseconds since StartTime, and as shares of the last 10, 60 and 300
// seconds, in percent.
type StallTime struct {
	Total                uint64
	Avg10, Avg60, Avg300 float64
}

// FilesystemUsage is in bytes and inodes.
type FilesystemUsage struct {
	Available, Capacity, Used      *uint64
	InodesFree, Inodes, InodesUsed *uint64
}

// InterfaceUsage counts bytes, errors, packets and those that were dropped since StartTime.
type InterfaceUsage struct {
	Name                                       string
	RxBytes, RxErrors, TxBytes, TxErrors       *uint64
	RxPackets, RxDropped, TxPackets, TxDropped *uint64
}

// UsageDetail is what of a [Usage] the Summary API does not have and cAdvisor's metrics do.
// Nil is unknown. Counters count since the Usage's StartTime.
type UsageDetail struct {
	// Cgroup is its path on the host; empty where nobody can say.
	Cgroup string
	// Of the CPU time, what was spent in user space and in the kernel, in nanoseconds.
	CPUUser, CPUSystem *uint64
	// CFS is what a CPU limit did; nil without one.
	CFS *CFSUsage
	// Memory in bytes: page cache, swap, mapped files, files on the two lists of the
	// kernel, and the most that was ever used.
	MemoryCache, MemorySwap, MemoryMappedFile        *uint64
	MemoryActiveFile, MemoryInactiveFile, MostMemory *uint64
	// MemoryFailures is how often the limit was reached, OOMKills how many processes the
	// kernel killed for it.
	MemoryFailures, OOMKills *uint64
	// Disks are the block devices that were read from or written to.
	Disks []DiskUsage
}

// CFSUsage counts the periods in which a CPU limit was enforced, those in which it stopped
// something, and for how many nanoseconds.
type CFSUsage struct {
	Periods, ThrottledPeriods, ThrottledTime uint64
}

// DiskUsage counts bytes and operations of a block device ("/dev/sda").
type DiskUsage struct {
	Device                               string
	ReadBytes, WriteBytes, Reads, Writes uint64
}
