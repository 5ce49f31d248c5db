package backends

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

func ecsKind() Kind {
	return Kind{
		Place:     func(b config.Backend) string { return b.ECS.Cluster + " in " + b.ECS.Region },
		Away:      func(config.Backend) bool { return true },
		InProcess: func(config.Backend) bool { return false },
		New: func(ctx context.Context, n Node) (backend.Backend, error) {
			b, err := ecs.New(ctx, ecsConfig(n))
			if err != nil {
				return backend.Backend{}, fmt.Errorf("set up the ecs backend: %w", err)
			}
			return b, nil
		},
		Offline: func(ctx context.Context, n Node) (backend.Backend, error) { return ecs.New(ctx, ecsConfig(n)) },
		Diagnose: func(ctx context.Context, n Node) ([]backend.Finding, error) {
			return ecs.Diagnose(ctx, ecsConfig(n)), nil
		},
		Taken: func(n Node, pod *corev1.Pod) map[string]string { return ecs.Taken(ecsConfig(n), pod) },
		Preview: func(_ context.Context, n Node, launch backend.LaunchSpec) (Preview, error) {
			task, err := ecs.Explain(ecsConfig(n), launch)
			if err != nil {
				return Preview{}, err
			}
			return Preview{Task: &task}, nil
		},
	}
}

// ecsConfig is the configuration of tasks on ECS as its backend wants it.
func ecsConfig(n Node) ecs.Config {
	c := n.Config.Backend.ECS
	out := ecs.Config{
		Region: c.Region, Cluster: c.Cluster, Subnets: c.Subnets, SecurityGroups: c.SecurityGroups,
		AssignPublicIP:   c.AssignPublicIP,
		ExecutionRoleARN: c.ExecutionRoleARN, TaskRoleARN: c.TaskRoleARN, CPUArchitecture: c.CPUArchitecture,
		LogGroup: c.LogGroup, LogOptions: c.LogOptions, TaskImage: c.TaskImage, CapacityTypes: c.CapacityTypes,
		PlatformVersion: c.PlatformVersion, EphemeralStorageGiB: c.EphemeralStorageGiB, Endpoint: c.Endpoint,
		EventQueueURL: c.EventQueueURL, UnusedAfter: c.UnusedAfter.Duration, Settle: c.Settle.Duration,
		NodeIdentity: n.Identity, Capacity: n.Config.Node.Capacity.ResourceList(),
		RegistryMirrors: c.RegistryMirrors, Refresh: c.Refresh.Duration, ClusterDomain: n.Config.ClusterDomain,
		SessionStats: c.Stats == config.StatsSessions,
	}
	if c.ClusterDNS == config.DNSRouted {
		out.ClusterDNS = n.Config.ClusterDNS
	}
	if v := c.EBS; v != nil {
		out.EBS = ecs.EBS{
			RoleARN: v.RoleARN, VolumeType: v.VolumeType, Encrypted: v.Encrypted, KMSKeyID: v.KMSKeyID,
			FilesystemType: v.FilesystemType,
		}
	}
	if p := c.Prices; p != nil {
		out.Rates = ecs.Rates{
			VCPU: p.VCPU, GB: p.GB, ARMVCPU: p.ARMVCPU, ARMGB: p.ARMGB, StorageGB: p.StorageGB, EBSGB: p.EBSGB,
			SpotFactor: p.SpotFactor,
		}
	}
	return out
}
