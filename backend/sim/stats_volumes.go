package sim

import (
	"slices"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim/shell"
)

// volumeStats is what the volumes of a pod hold, by name, and how much of it is on
// the host's disk.
func volumeStats(volumes map[string]*volume, now time.Time) (stats map[string]backend.FilesystemUsage, local uint64) {
	stats = make(map[string]backend.FilesystemUsage, len(volumes))
	for name, v := range volumes {
		used, files := v.size(now)
		stats[name] = backend.FilesystemUsage{Used: &used, InodesUsed: &files}
		if v.local {
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

// size is that of the files that were placed and written, and how many they are.
func (v *volume) size(now time.Time) (bytes, files uint64) {
	type step struct {
		at time.Time
		write
	}
	written := map[string][]step{}
	for _, c := range v.writers {
		for _, w := range c.program.writes {
			if w.volume == v && c.happened(w, now) {
				written[w.path] = append(written[w.path], step{c.started.Add(w.at), w})
			}
		}
	}
	for path, file := range v.now.files {
		if written[path] == nil {
			bytes += uint64(len(file.Data))
			files++
		}
	}
	for path, steps := range written {
		slices.SortStableFunc(steps, func(a, b step) int { return a.at.Compare(b.at) })
		var e shell.Entry
		if file, placed := v.now.files[path]; placed {
			e = shell.Entry{Kind: shell.File, Data: file.Data}
		}
		if e = replay(e, steps, func(s step) write { return s.write }); e.Kind == shell.File {
			bytes += uint64(len(e.Data))
			files++
		}
	}
	return bytes, files
}
