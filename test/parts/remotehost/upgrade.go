package remotehost

import (
	"context"
	"fmt"

	"github.com/burstlet/burstlet/test/parts/remotehost/containerd"
)

// containerdBin holds the programs of a containerd that is not the machine's; setup.sh
// puts it in front.
const containerdBin = "/opt/containerd/bin"

func (h *Host) installContainerd(ctx context.Context, version containerd.Version) error {
	return version.Install(ctx, h.layout.disk(containerdBin), h.cfg.Log)
}

// UpgradeContainerd replaces containerd by another version of it, as an upgrade of its
// package does: with the configuration and the state that are there, and while containers
// run on below the shims that they have.
func (h *Host) UpgradeContainerd(ctx context.Context, version containerd.Version) error {
	if err := version.Check(); err != nil {
		return fmt.Errorf("upgrade containerd: %w", err)
	}
	if err := h.KillContainerd(ctx); err != nil {
		return err
	}
	if err := h.installContainerd(ctx, version); err != nil {
		return err
	}
	return h.StartContainerd(ctx)
}
