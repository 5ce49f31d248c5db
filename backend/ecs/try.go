package ecs

import (
	"context"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/clients"
	"github.com/burstlet/burstlet/backend/ecs/probe"
)

// Bill is what [Try] makes and costs at most.
func Bill(cfg Config) probe.Bill { return probe.Config{Config: cfg.Config}.Bill() }

// Try runs a few tiny tasks of an image (empty: one with a shell), compares what ECS does
// with what burstlet assumes, and removes them. It is not gated: nobody leads for it, and
// it touches nothing but what it makes.
func Try(ctx context.Context, cfg Config, image string) (probe.Result, error) {
	if err := cfg.Validate(); err != nil {
		return probe.Result{}, err
	}
	cfg.May = backend.Always
	c, err := clients.New(ctx, cfg.clients())
	if err != nil {
		return probe.Result{}, err
	}
	return probe.Run(ctx, probe.Config{Config: cfg.Config, Image: image}, c)
}
