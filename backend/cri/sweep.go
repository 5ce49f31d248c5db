package cri

import (
	"context"
	"fmt"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// sweepAll is backend.Backend's Sweep: it removes the logs, and cgroups, of pods of
// this node that are not there, and its records of image pulls, and ends what rotates logs
// by itself. The directory and the cgroup above all pods stay: other nodes may have the
// same. So do images. The record of the node's leaders goes last: without it nothing is
// changed any more.
func (r *remote) sweepAll(ctx context.Context) ([]string, error) {
	if r.leader != nil && r.leader.Dropped() {
		return nil, nil
	}
	views, err := r.views(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	uids := make([]string, 0, len(views))
	for _, v := range views {
		uids = append(uids, string(v.ref.UID))
	}
	if err := r.host.Sweep(ctx, host.Sweep{
		PodLogs: r.cfg.PodLogsDir, KeepUIDs: uids, Links: r.cfg.ContainerLogsDir, Node: r.cfg.NodeIdentity,
	}); err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	if _, err := r.host.Discard(ctx, host.Discard{Trees: []string{r.pullRecords.Path()}}); err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	if err := r.endKeeping(ctx); err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	if r.leader != nil {
		if err := r.leader.Drop(ctx); err != nil {
			return nil, fmt.Errorf("sweep: %w", err)
		}
	}
	return nil, nil
}
