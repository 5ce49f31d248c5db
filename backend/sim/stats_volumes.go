package sim

import (
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim/filesystem"
)

// volumeStats is what the volumes of a pod hold, by name, and how much of it is on
// the host's disk.
func volumeStats(
	volumes map[string]*filesystem.Volume, now time.Time,
) (stats map[string]backend.FilesystemUsage, local uint64) {
	stats = make(map[string]backend.FilesystemUsage, len(volumes))
	for name, v := range volumes {
		used, files := v.Size(now)
		stats[name] = backend.FilesystemUsage{Used: &used, InodesUsed: &files}
		if v.Local {
			local += used
		}
	}
	return stats, local
}

// shareDisk says of volumes how large the disk is that they are on.
func shareDisk(pods []backend.PodStats, disk *backend.FilesystemUsage) {
	for i := range pods {
		for name, usage := range pods[i].Volumes {
			usage.Capacity, usage.Available = disk.Capacity, disk.Available
			pods[i].Volumes[name] = usage
		}
	}
}
