package host

import "time"

// Files in a pod's log directory, beside its [LogMark], which go with it.
const (
	// StorageLimits has the pod's limits on local storage (localstorage.Limits, as JSON);
	// without it the pod has none for the host to hold it to.
	StorageLimits = ".burstlet-storage-limits"
	// EvictedMark is the record that the host evicted the pod ([Eviction], as JSON).
	EvictedMark = ".burstlet-evicted"
)

// Evict has the host hold a node's pods to their limits on local storage by itself.
type Evict struct {
	// Stats is the encoded ListContainerStatsRequest for the node's containers.
	Stats []byte
	// Grace is what the containers of an evicted pod get to end.
	Grace time.Duration
}

// EvictedRequest names the node whose pods stand below Root and log below PodLogs.
type EvictedRequest struct{ Root, Node, PodLogs string }

// Eviction is the record of one.
type Eviction struct {
	UID string
	// Limit is the signal of the limit that the pod was over (package localstorage), Used
	// the bytes that were too many, and Message what users are told.
	Limit   string
	Used    uint64
	Message string
	// Time is the host's.
	Time time.Time
}

// Ephemeral is what a pod takes of its host's disk, of which it is measured: the layers of
// its containers that run, the logs, those of containers that have ended too, its files and
// the volumes that are on disk.
func (u *PodUsage) Ephemeral(layers ...Filesystem) Filesystem {
	var sum Filesystem
	add := func(f Filesystem) {
		sum.Used += f.Used
		sum.InodesUsed += f.InodesUsed
	}
	for _, f := range layers {
		add(f)
	}
	for _, f := range u.Logs {
		add(f)
	}
	add(u.Files)
	for _, name := range u.OnDisk {
		add(u.Volumes[name])
	}
	return sum
}
