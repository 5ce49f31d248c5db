package backends

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs"
	"github.com/burstlet/burstlet/backend/ecs/taskdef"
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
		Try: func(n Node, image string) Trial {
			cfg := ecsConfig(n)
			bill := ecs.Bill(cfg)
			return Trial{Tasks: bill.Tasks, Dollars: bill.Dollars, Run: func(ctx context.Context) (Answers, error) {
				return ecs.Try(ctx, cfg, image)
			}}
		},
		Taken: func(n Node, pod *corev1.Pod) map[string]string { return taskdef.Taken(ecsConfig(n).Config, pod) },
		Preview: func(_ context.Context, n Node, launch backend.LaunchSpec) (Preview, error) {
			task, err := taskdef.Explain(ecsConfig(n).Config, launch)
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
	out := ecs.Config{Config: c.Settings(), Capacity: n.Config.Node.Capacity.ResourceList(), May: n.May}
	out.NodeIdentity, out.ClusterDomain = n.Identity, n.Config.ClusterDomain
	if n.Shared != nil {
		out.KnownImages = n.Shared.images
	}
	if c.ClusterDNS == config.DNSRouted {
		out.ClusterDNS = n.Config.ClusterDNS
	}
	return out
}
