package ecs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/containerd/log"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/ecs/payload"
)

// Numbers of collecting garbage.
const (
	// garbageInterval is how often it is collected: what was garbage twice in turn.
	garbageInterval = 10 * time.Minute
	// orphanAge is how old a secret of a pod without a task must be: a launch may
	// wait for its turn, for room, or show late.
	orphanAge = 30 * time.Minute
	// garbageWarmup is how long a new process watches which definitions and shared
	// secrets are used before it calls one unused. What it then gets wrong is made
	// again by the next launch.
	garbageWarmup = time.Hour
	// garbageTokens are left in the bucket that registrations share, for them.
	garbageTokens = 10
)

// collector deletes what this node made in AWS and no task needs any more: secrets
// of pods that never came to have a task, and, when they were not used for
// unusedAfter, definitions and shared secrets. It knows its own by name and tag,
// touches nothing of others, and nothing while a listing is not complete. Tasks
// without a pod are the engine's business.
type collector struct {
	remote      *remote
	defs        *definitions
	families    *familyStore
	payloads    *payload.Store
	sweeper     *payload.Sweeper
	secretsGone bool
	startedBy   string
	unusedAfter time.Duration
	born        time.Time

	// suspects are what was found to be garbage the last time.
	suspects map[string]bool
}

func newCollector(cfg Config, p *pods, api familiesAPI, store *payload.Store) *collector {
	return &collector{
		remote: p.remote, defs: p.defs, payloads: store, sweeper: store.Sweeper(), startedBy: p.startedBy,
		families: newFamilyStore(api, p.remote.buckets, cfg.NodeIdentity), unusedAfter: cfg.UnusedAfter, born: time.Now(),
	}
}

// inUse is what live tasks need.
type inUse struct {
	pods     map[identity.Key]bool
	families map[string]bool
	// secrets are full ARNs.
	secrets map[string]bool
}

// Run collects until the context ends. What fails is repeated the next time. It asks
// may before each thing that it deletes.
func (c *collector) Run(ctx context.Context, may backend.Permit) error {
	ticker := time.NewTicker(garbageInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := c.collect(ctx, may); err != nil && ctx.Err() == nil {
			log.G(ctx).WithError(err).Warn("looking for unused task definitions and secrets failed; it is tried again later")
		}
	}
}

// collect finds garbage, and deletes what was garbage the last time too.
func (c *collector) collect(ctx context.Context, may backend.Permit) error {
	used, err := c.used(ctx)
	if err != nil {
		return err
	}
	found, err := c.find(ctx, used, time.Now())
	if err != nil {
		return err
	}
	last := c.suspects
	c.suspects = map[string]bool{}
	var errs []error
	for _, g := range found {
		if !last[g.name] {
			c.suspects[g.name] = true
			continue
		}
		err := may.Ask("delete " + g.name)
		if err == nil {
			err = g.remove(ctx)
		}
		if err != nil {
			c.suspects[g.name] = true
			errs = append(errs, err)
			continue
		}
		log.G(ctx).WithField("name", g.name).Info("deleted what no task uses any more")
	}
	if err = may.Ask("delete task definitions"); err == nil {
		_, err = c.families.purge(ctx)
	}
	return errors.Join(append(errs, err)...)
}

// garbage is one thing that nobody needs.
type garbage struct {
	name   string
	remove func(context.Context) error
}

func garbageOf(secrets []payload.Unused) []garbage {
	var out []garbage
	for _, s := range secrets {
		out = append(out, garbage{s.Name, s.Remove})
	}
	return out
}

// find finds garbage in everything that this node made.
func (c *collector) find(ctx context.Context, used inUse, now time.Time) ([]garbage, error) {
	secrets, err := c.payloads.List(ctx)
	if err != nil {
		return nil, err
	}
	families, err := c.families.list(ctx)
	if err != nil {
		return nil, err
	}
	out := garbageOf(c.payloads.UnusedOfPods(secrets, used.pods, now.Add(-orphanAge)))
	if now.Sub(c.born) < garbageWarmup {
		return out, nil
	}
	out = append(out, garbageOf(c.payloads.UnusedShared(secrets, used.secrets, now.Add(-c.unusedAfter)))...)
	return append(out, c.unusedFamilies(families, used, now)...), nil
}

// unusedFamilies are those that no live task is of.
func (c *collector) unusedFamilies(families []string, used inUse, now time.Time) []garbage {
	var out []garbage
	before := now.Add(-c.unusedAfter)
	for _, family := range families {
		if used.families[family] {
			continue
		}
		out = append(out, garbage{family, func(ctx context.Context) error {
			return c.defs.retire(ctx, family, before, c.families.deregister)
		}})
	}
	return out
}

// used asks which live tasks this node has, and what their definitions name.
func (c *collector) used(ctx context.Context) (inUse, error) {
	used := inUse{pods: map[identity.Key]bool{}, families: map[string]bool{}, secrets: map[string]bool{}}
	arns, err := c.remote.list(ctx, awsecs.ListTasksInput{StartedBy: &c.startedBy})
	if err != nil {
		return used, err
	}
	got, err := c.remote.describe(ctx, arns)
	if err != nil {
		return used, err
	}
	for arn, why := range got.failed { // it may use anything
		return used, backend.Errorf(backend.ErrUnavailable, "describe task %s: %s", arn, why)
	}
	for _, t := range got.tasks {
		if id, err := identity.Read(t); err == nil {
			used.pods[identity.KeyOf(id.Ref(""))] = true
		}
		if err := c.definitionOf(ctx, t, used); err != nil {
			return used, err
		}
	}
	return used, nil
}

// definitionOf adds what a task's definition names.
func (c *collector) definitionOf(ctx context.Context, t types.Task, used inUse) error {
	arn := aws.ToString(t.TaskDefinitionArn)
	family := identity.FamilyOf(arn)
	if family == "" {
		return backend.Errorf(
			backend.ErrUnavailable, "task %s: its definition %q has no family", aws.ToString(t.TaskArn), arn,
		)
	}
	used.families[family] = true
	secrets, err := c.families.secrets(ctx, arn)
	if err != nil {
		return fmt.Errorf("look at what task %s uses: %w", aws.ToString(t.TaskArn), err)
	}
	for _, s := range secrets {
		used.secrets[s] = true
	}
	return nil
}
