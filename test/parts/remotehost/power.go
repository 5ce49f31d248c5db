package remotehost

import (
	"context"
	"errors"
	"fmt"

	"github.com/burstlet/burstlet/test/parts/remotehost/containerd"
	"github.com/burstlet/burstlet/test/parts/remotehost/namespaces"
)

// PowerOn boots a host that is off, and returns when sshd and containerd serve.
func (h *Host) PowerOn(ctx context.Context) error {
	if h.on {
		return errors.New("power on: the host is on")
	}
	if err := h.startInside(ctx); err != nil {
		return fmt.Errorf("power on: %w", err)
	}
	if h.cfg.Linked {
		if err := h.connect(ctx); err != nil {
			return err
		}
	}
	for _, registry := range h.registries {
		if err := h.listen(ctx, registry); err != nil {
			return err
		}
	}
	if err := h.StartSSHD(ctx); err != nil {
		return err
	}
	return h.StartContainerd(ctx)
}

// PowerOff ends all processes at once, and what is not on the disk is gone: /run,
// /tmp, mounts, network, cgroups. The link resets its connections and whoever
// dials it; see [link.Link.Cut] for a host that does not answer.
func (h *Host) PowerOff() error {
	if !h.on {
		return nil
	}
	h.on = false
	errs := []error{h.disconnect(), h.inside.Load().Stop()}
	for _, registry := range h.registries {
		errs = append(errs, registry.close())
	}
	errs = append(errs, namespaces.RemoveCgroupTrees(h.layout.cgroup()))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("power off: %w", err)
	}
	return nil
}

// Reboot is PowerOff and PowerOn: the disk is kept, the boot id is another.
func (h *Host) Reboot(ctx context.Context) error {
	if err := h.PowerOff(); err != nil {
		return err
	}
	return h.PowerOn(ctx)
}

// Restart restarts containerd and sshd without harm to containers, as an upgrade
// of their packages does.
func (h *Host) Restart(ctx context.Context) error {
	if err := errors.Join(h.KillSSHD(ctx), h.inside.Load().KillDaemon(ctx, containerd.Daemon)); err != nil {
		return err
	}
	if err := h.StartContainerd(ctx); err != nil {
		return err
	}
	return h.StartSSHD(ctx)
}

// Stop removes the host and all that belongs to it.
func (h *Host) Stop(context.Context) error {
	var errs []error
	if h.link != nil {
		errs = append(errs, h.link.Close())
	}
	for _, way := range h.reached {
		errs = append(errs, way.Close())
	}
	errs = append(errs, h.PowerOff())
	if h.client != nil {
		errs = append(errs, h.client.Close())
	}
	for _, claim := range []*namespaces.Claim{h.subnet, h.network} {
		if claim != nil {
			errs = append(errs, claim.Release())
		}
	}
	if h.dir != nil {
		errs = append(errs, h.dir.Remove())
	}
	return errors.Join(errs...)
}
