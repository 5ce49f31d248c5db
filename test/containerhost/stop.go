package containerhost

import (
	"context"
	"errors"
	"time"

	"github.com/containerd/log"
)

// removeTimeout bounds the removal of sandboxes through CRI: what is left then
// ends with the host.
const removeTimeout = 20 * time.Second

// Stop removes every pod and image and all else that [Start] or a client made:
// processes, mounts, cgroups of containers, the state directory. What stays are
// empty parents of those cgroups: /k8s.io, which hosts share, and those that a
// client named itself (cgroup_parent), which are the client's to remove.
func (h *Host) Stop(ctx context.Context) error {
	var errs []error
	if h.supervisor != nil {
		h.removePods(ctx)
	}
	if h.conn != nil {
		errs = append(errs, h.conn.Close())
	}
	if h.supervisor != nil {
		errs = append(errs, h.unlink(ctx), h.supervisor.stop())
	}
	for _, claim := range []*claim{h.subnet, h.linkNet} {
		if claim != nil {
			errs = append(errs, claim.release())
		}
	}
	if h.lock != nil {
		errs = append(errs, reclaim(h.layout), h.lock.Close())
	}
	return errors.Join(errs...)
}

// removePods gives the runtime a chance to take down its pods itself. A
// containerd that a test killed or wedged is no failure: nothing outlives the
// host's PID 1.
func (h *Host) removePods(ctx context.Context) {
	if h.conn == nil || !h.supervisor.running() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	if err := h.removeSandboxes(ctx); err != nil {
		log.G(ctx).WithError(err).Warn("sandboxes not removed, ending them with their host")
	}
}
