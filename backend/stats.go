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
}

// FilesystemUsage is in bytes and inodes.
type FilesystemUsage struct {
	Available, Capacity, Used      *uint64
	InodesFree, Inodes, InodesUsed *uint64
}

// InterfaceUsage counts bytes and errors since StartTime.
type InterfaceUsage struct {
	Name                                 string
	RxBytes, RxErrors, TxBytes, TxErrors *uint64
}
