package containerhost

import (
	"context"
	"errors"
	"time"

	"github.com/containerd/log"

	"github.com/burstlet/burstlet/test/parts/remotehost/containerd"
	"github.com/burstlet/burstlet/test/parts/remotehost/namespaces"
)

// removeTimeout bounds the removal of sandboxes through CRI: what is left then
// ends with the host.
const removeTimeout = time.Minute

// Stop removes every pod and image and all else that [Start] or a client made:
// processes, mounts, cgroups of containers, the state directory. What stays are
// empty parents of those cgroups: /k8s.io, which hosts share, and those that a
// client named itself (cgroup_parent), which are the client's to remove.
func (h *Host) Stop(ctx context.Context) error {
	var errs []error
	h.removePods(ctx)
	if h.client != nil {
		errs = append(errs, h.client.Close())
	}
	if h.inside != nil {
		errs = append(errs, h.unlink(ctx), h.inside.Stop())
	}
	for _, claim := range []*namespaces.Claim{h.subnet, h.linkNet} {
		if claim != nil {
			errs = append(errs, claim.Release())
		}
	}
	if h.dir != nil {
		errs = append(errs, h.dir.Remove())
	}
	return errors.Join(errs...)
}

// removePods gives the runtime a chance to take down its pods itself. A
// containerd that a test killed or wedged is no failure: nothing outlives the
// host's PID 1.
func (h *Host) removePods(ctx context.Context) {
	if h.client == nil || !h.inside.Running(containerd.Daemon) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	if err := h.client.RemoveSandboxes(ctx); err != nil {
		log.G(ctx).WithError(err).Warn("sandboxes not removed, ending them with their host")
	}
}
