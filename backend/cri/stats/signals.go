package stats

import (
	"context"
	"fmt"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// Signals makes one host operation, which walks no pod's directories. What else it needs to
// know it asks once.
func (s *Measurer) Signals(ctx context.Context) (backend.SignalFacts, error) {
	if ctx.Err() != nil { // on this machine nothing of what follows waits
		return backend.SignalFacts{}, fmt.Errorf("measure the host: %w", context.Cause(ctx))
	}
	images, err := s.imagesPath(ctx)
	if err != nil {
		return backend.SignalFacts{}, err
	}
	driver, err := s.from.CgroupDriver(ctx)
	if err != nil {
		return backend.SignalFacts{}, err
	}
	u, err := s.from.Host.Usage(ctx, host.UsageRequest{
		Root: s.from.Config.PodsDir, Images: images, PodsCgroup: convert.TopCgroup(driver, s.from.Config.CgroupParent),
	})
	if err != nil {
		return backend.SignalFacts{}, fmt.Errorf("measure the host: %w", err)
	}
	facts := backend.SignalFacts{Time: s.from.Ours(u.Now)}
	if limit, used := u.Node.MemoryLimit, u.Node.WorkingSet; limit != nil && used != nil {
		facts.Memory = &backend.Level{Available: *limit - min(*limit, *used), Capacity: *limit}
	}
	if u.PodsCgroup != nil {
		facts.PodsMemory = u.PodsCgroup.WorkingSet
	}
	facts.NodeFS, facts.NodeFSInodes = levels(u.Root)
	if images != "" {
		facts.DedicatedImageFS = u.ImagesApart
		facts.ImageFS, facts.ImageFSInodes = levels(u.Images)
	}
	if most := u.MaxProcesses; most > 0 {
		facts.PIDs = &backend.Level{Available: most - min(most, u.Processes), Capacity: most}
	}
	return facts, nil
}

// levels are those of a file system; one that does not count inodes has none.
func levels(f host.Filesystem) (bytes, inodes *backend.Level) {
	if f.Capacity > 0 {
		bytes = &backend.Level{Available: f.Available, Capacity: f.Capacity}
	}
	if f.Inodes > 0 {
		inodes = &backend.Level{Available: f.InodesFree, Capacity: f.Inodes}
	}
	return bytes, inodes
}
