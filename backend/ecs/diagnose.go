package ecs

import (
	"context"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/clients"
	"github.com/burstlet/burstlet/backend/ecs/doctor"
)

// Diagnose checks what a node on ECS needs: credentials, the cluster, permissions,
// roles, the network, quotas. It calls nothing but what reads, and takes nothing
// from queues. It stops where what follows cannot work. No finding holds a secret.
func Diagnose(ctx context.Context, cfg Config) []backend.Finding {
	if err := cfg.Validate(); err != nil {
		return []backend.Finding{backend.Bad("configuration", err.Error(), "")}
	}
	c, err := clients.New(ctx, cfg.clients())
	if err != nil {
		return []backend.Finding{backend.Bad("AWS credentials", err.Error(), "")}
	}
	return doctor.Diagnose(
		ctx, doctor.Config{Config: cfg.Config, EventQueueURL: cfg.EventQueueURL, Capacity: cfg.Capacity}, c,
	)
}
