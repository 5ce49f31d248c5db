package ecs

import (
	"context"
	"time"

	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/refusal"
)

// definitions makes sure that task definitions are registered, each once.
type definitions struct {
	remote *remote
	// refusals are those of RegisterTaskDefinition.
	refusals *refusal.Refusals
	// slot holds the families that are known to be registered, and when each was
	// last used; who took it may look one up or register it. One at a time: two registrations of one family
	// at once are what ECS refuses, and pods mostly share a few families.
	slot chan map[string]time.Time
}

func newDefinitions(r *remote) *definitions {
	d := &definitions{remote: r, refusals: refusal.New(), slot: make(chan map[string]time.Time, 1)}
	d.slot <- map[string]time.Time{}
	return d
}

// ensure registers a definition unless its family exists. A family is named by
// its content, so whoever registered it registered the same. It waits with waiting.
func (d *definitions) ensure(ctx, waiting context.Context, in *awsecs.RegisterTaskDefinitionInput) error {
	known, err := d.take(waiting)
	if err != nil {
		return err
	}
	defer func() { d.slot <- known }()
	family := *in.Family
	if _, ok := known[family]; ok {
		known[family] = time.Now()
		return nil
	}
	exists, err := d.remote.registered(ctx, waiting, family)
	if err != nil {
		return err
	}
	if !exists {
		if err := d.refusals.Admit(family, time.Now()); err != nil {
			return err
		}
		if err := d.remote.register(ctx, waiting, in); err != nil {
			return d.refusals.Judge(ctx, family, err)
		}
		d.refusals.Made(family)
	}
	known[family] = time.Now()
	return nil
}

// forget drops a family that ECS says is not there, so that it is made again.
func (d *definitions) forget(ctx context.Context, family string) {
	if known, err := d.take(ctx); err == nil {
		delete(known, family)
		d.slot <- known
	}
}

func (d *definitions) take(ctx context.Context) (map[string]time.Time, error) {
	select {
	case known := <-d.slot:
		return known, nil
	case <-ctx.Done():
		return nil, backend.Errorf(backend.ErrThrottled, "wait for another registration: %w", ctx.Err())
	}
}
