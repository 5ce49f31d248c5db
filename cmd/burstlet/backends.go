package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri"
	"github.com/burstlet/burstlet/backend/ecs"
	"github.com/burstlet/burstlet/backend/sim"
	"github.com/burstlet/burstlet/backend/sim/simrpc"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

// newBackend makes the backend that the configuration names, and makes sure
// that it is there: a node without its remote says so at once.
func newBackend(ctx context.Context, cfg config.Configuration, identity string) (backend.Backend, error) {
	switch c := cfg.Backend; c.Type {
	case config.BackendCRI:
		b, err := cri.New(cri.Config{
			Endpoint: c.CRI.Endpoint, NodeIdentity: identity,
			PodLogsDir: c.CRI.PodLogsDir, ContainerLogsDir: c.CRI.ContainerLogsDir,
			CgroupParent: c.CRI.CgroupParent, CgroupDriver: c.CRI.CgroupDriver,
			ClusterDNS: cfg.ClusterDNS, ClusterDomain: cfg.ClusterDomain, ResolvConf: c.CRI.ResolvConf,
		})
		if err != nil {
			return backend.Backend{}, fmt.Errorf("set up the cri backend: %w", err)
		}
		return *b, nil
	case config.BackendECS:
		b, err := ecs.New(ctx, ecs.Config{
			Region: c.ECS.Region, Cluster: c.ECS.Cluster, Subnets: c.ECS.Subnets,
			SecurityGroups: c.ECS.SecurityGroups, AssignPublicIP: c.ECS.AssignPublicIP,
			ExecutionRoleARN: c.ECS.ExecutionRoleARN, TaskRoleARN: c.ECS.TaskRoleARN,
			CPUArchitecture: c.ECS.CPUArchitecture, LogGroup: c.ECS.LogGroup, Endpoint: c.ECS.Endpoint,
			NodeIdentity: identity, Capacity: cfg.Node.Capacity.ResourceList(),
		})
		if err != nil {
			return backend.Backend{}, fmt.Errorf("set up the ecs backend: %w", err)
		}
		return b, nil
	case config.BackendSim:
		if c.Sim.Socket != "" {
			return connectSim(ctx, c.Sim.Socket, identity)
		}
		remote := sim.New(sim.Config{Node: identity, PodUnit: c.Sim.Granularity == config.GranularityPod})
		return remote.Backend(), nil
	default:
		return backend.Backend{}, fmt.Errorf("backend.type %q is not one of sim, cri, ecs", c.Type)
	}
}

// connectSim connects to the remote of a "burstlet sim".
func connectSim(ctx context.Context, endpoint, identity string) (backend.Backend, error) {
	b, err := simrpc.Connect(ctx, simrpc.Config{
		Socket: strings.TrimPrefix(endpoint, "unix://"), Node: identity, Version: programVersion(),
		Check: sim.New(sim.Config{}).Backend().Check,
	})
	if err != nil {
		return backend.Backend{}, fmt.Errorf("set up the sim backend at %s: %w", endpoint, err)
	}
	return b, nil
}
