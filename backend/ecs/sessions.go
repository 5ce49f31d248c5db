package ecs

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	ktypes "k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/clients"
	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/ecs/session"
)

// sessions says how sessions with tasks are opened.
func (c Config) sessions(r *remote, cls clients.Clients) session.Config {
	out := session.Config{
		Region: c.Region, Cluster: r.cluster, Credentials: cls.Credentials, API: cls.ECS,
		Modify: r.buckets.modify, Stats: c.SessionStats,
	}
	if c.TaskImage != "" {
		out.Container = identity.AgentName
	}
	return out
}

// nodeTasks is session.Tasks and logs.Tasks.
type nodeTasks struct{ *pods }

// Known implements session.Tasks.
func (t nodeTasks) Known(uid ktypes.UID) []backend.PodFacts { return t.known.Facts(uid) }

// Describe implements session.Tasks.
func (t nodeTasks) Describe(ctx context.Context, arns []string) ([]types.Task, []string, error) {
	got, err := t.remote.describe(ctx, arns)
	for arn, why := range got.failed {
		err = errors.Join(err, backend.Errorf(backend.ErrUnavailable, "describe task %s: %s", arn, why))
	}
	return got.tasks, got.missing, err
}

// Local implements session.Tasks and logs.Tasks.
func (t nodeTasks) Local(at *time.Time) time.Time { return t.remote.clock.local(at) }
