package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri"
	"github.com/burstlet/burstlet/backend/cri/host/helper/binary"
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
		b, err := cri.New(criConfig(cfg, identity))
		if err != nil {
			return backend.Backend{}, fmt.Errorf("set up the cri backend: %w", err)
		}
		return *b, nil
	case config.BackendECS:
		b, err := ecs.New(ctx, ecsConfig(cfg, identity))
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

// isAway is true of a remote on another machine.
func isAway(b config.Backend) bool {
	switch b.Type {
	case config.BackendECS:
		return true
	case config.BackendCRI:
		return strings.HasPrefix(b.CRI.Endpoint, "ssh://")
	default:
		return false
	}
}

// ecsConfig is the configuration of tasks on ECS as its backend wants it.
func ecsConfig(cfg config.Configuration, identity string) ecs.Config {
	c := cfg.Backend.ECS
	out := ecs.Config{
		Region: c.Region, Cluster: c.Cluster, Subnets: c.Subnets, SecurityGroups: c.SecurityGroups, AssignPublicIP: c.AssignPublicIP,
		ExecutionRoleARN: c.ExecutionRoleARN, TaskRoleARN: c.TaskRoleARN, CPUArchitecture: c.CPUArchitecture,
		LogGroup: c.LogGroup, LogOptions: c.LogOptions, TaskImage: c.TaskImage, CapacityTypes: c.CapacityTypes,
		PlatformVersion: c.PlatformVersion, EphemeralStorageGiB: c.EphemeralStorageGiB, Endpoint: c.Endpoint,
		EventQueueURL: c.EventQueueURL, UnusedAfter: c.UnusedAfter.Duration, Settle: c.Settle.Duration,
		NodeIdentity: identity, Capacity: cfg.Node.Capacity.ResourceList(),
	}
	out.RegistryMirrors, out.Refresh, out.ClusterDomain = c.RegistryMirrors, c.Refresh.Duration, cfg.ClusterDomain
	out.SessionStats = c.Stats == config.StatsSessions
	if c.ClusterDNS == config.DNSRouted {
		out.ClusterDNS = cfg.ClusterDNS
	}
	if v := c.EBS; v != nil {
		out.EBS = ecs.EBS{
			RoleARN: v.RoleARN, VolumeType: v.VolumeType, Encrypted: v.Encrypted, KMSKeyID: v.KMSKeyID, FilesystemType: v.FilesystemType,
		}
	}
	if p := c.Prices; p != nil {
		out.Rates = ecs.Rates{VCPU: p.VCPU, GB: p.GB, ARMVCPU: p.ARMVCPU, ARMGB: p.ARMGB, StorageGB: p.StorageGB, EBSGB: p.EBSGB, SpotFactor: p.SpotFactor}
	}
	return out
}

// criConfig is the configuration of a container host as its backend wants it.
func criConfig(cfg config.Configuration, identity string) cri.Config {
	c := cfg.Backend.CRI
	out := cri.Config{
		Endpoint: c.Endpoint, NodeIdentity: identity, RuntimeSocket: c.RuntimeSocket,
		PodsDir: c.PodsDir, SeccompProfileRoot: c.SeccompProfileRoot,
		ContainerLogMaxFiles: c.ContainerLogMaxFiles, PodPidsLimit: c.PodPidsLimit,
		PodLogsDir: c.PodLogsDir, ContainerLogsDir: c.ContainerLogsDir,
		CgroupParent: c.CgroupParent, CgroupDriver: c.CgroupDriver,
		ClusterDNS: cfg.ClusterDNS, ClusterDomain: cfg.ClusterDomain, ResolvConf: c.ResolvConf,
	}
	if c.ContainerLogMaxSize != nil {
		out.ContainerLogMaxSize = c.ContainerLogMaxSize.Value()
	}
	if s := c.SSH; s != nil {
		out.SSH = &cri.SSH{
			KeyFiles: s.KeyFiles, Agent: s.Agent, KnownHostsFile: s.KnownHostsFile,
			InsecureIgnoreHostKey: s.InsecureIgnoreHostKey, JumpHosts: s.JumpHosts,
			Keepalive: s.Keepalive.Duration, KeepaliveMax: s.KeepaliveMax, Helper: binary.For,
		}
	}
	return out
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
