package main

import (
	"context"
	"net"
	"os"
	"os/user"
	"strings"

	"github.com/burstlet/burstlet/backend"
	hostlocal "github.com/burstlet/burstlet/backend/cri/host/local"
	"github.com/burstlet/burstlet/backend/cri/sshlink"
	"github.com/burstlet/burstlet/backend/ecs"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

// diagnoseBackend looks at where the node's pods run.
func diagnoseBackend(ctx context.Context, c config.Configuration, identity string) ([]backend.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, diagnoseTimeout)
	defer cancel()
	switch c.Backend.Type {
	case config.BackendCRI:
		return diagnoseHost(ctx, c)
	case config.BackendECS:
		return ecs.Diagnose(ctx, ecsConfig(c, identity)), nil
	default:
		return diagnoseSim(ctx, c, identity), nil
	}
}

func diagnoseSim(ctx context.Context, c config.Configuration, identity string) []backend.Finding {
	const what, nothing = "backend", "is simulated: no container runs"
	found := []backend.Finding{backend.Doubtful(what, nothing, "choose another with backend.type for pods that are to run")}
	if c.Backend.Sim == nil || c.Backend.Sim.Socket == "" {
		return found
	}
	socket := c.Backend.Sim.Socket
	if _, err := connectSim(ctx, socket, identity); err != nil {
		return append(found, backend.Bad("burstlet sim", err.Error(), "start burstlet sim of the same version at that socket, or leave out backend.sim.socket"))
	}
	return append(found, backend.Good("burstlet sim", "answers at "+socket))
}

// diagnoseHost looks at a container host, here or over SSH.
func diagnoseHost(ctx context.Context, c config.Configuration) ([]backend.Finding, error) {
	b := c.Backend
	if b.CRI.SSH == nil {
		return diagnoseHere(ctx, b.CRI), nil
	}
	cfg, err := criConfig(c, "").Link()
	if err != nil {
		return nil, err
	}
	link, err := sshlink.New(cfg)
	if err != nil {
		return nil, err
	}
	return link.Diagnose(ctx, b.CRI.RuntimeSocket), nil
}

// diagnoseHere looks at this machine.
func diagnoseHere(ctx context.Context, c *config.CRI) []backend.Finding {
	name := "this user"
	if me, err := user.Current(); err == nil {
		name = me.Username
	}
	root := backend.Good("root", "runs as root")
	if os.Getuid() != 0 {
		root = backend.Bad("root", "runs as "+name,
			"the host operations (mounts, cgroups) need root: run burstlet as root, or reach the host over SSH")
	}
	socket := strings.TrimPrefix(c.Endpoint, "unix://")
	found := append([]backend.Finding{root}, sshlink.DiagnoseRuntime(ctx, &net.Dialer{}, name, socket)...)
	facts, err := hostlocal.New(hostlocal.Options{Root: c.PodsDir}).Facts(ctx)
	if err != nil {
		return append(found, backend.Bad("host", err.Error(), ""))
	}
	return append(found, sshlink.DiagnoseHost(facts, socket)...)
}
