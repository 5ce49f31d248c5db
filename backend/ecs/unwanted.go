package ecs

import (
	"context"
	"errors"
	"time"

	"github.com/containerd/log"

	"github.com/burstlet/burstlet/backend"
)

// endUnwanted stops, until the context ends, the tasks that should not run (task.Known.Unwanted).
// What fails is tried again when the task is read the next time, a moment later.
func (p *pods) endUnwanted(ctx context.Context, may backend.Permit) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.known.IsUnwanted():
		}
		for arn, reason := range p.known.Unwanted() {
			err := may.Ask("stop a task that should not run")
			if err == nil {
				err = p.endOne(ctx, arn, reason)
			}
			if err != nil && ctx.Err() == nil && !errors.Is(err, backend.ErrThrottled) && !errors.Is(err, backend.ErrNotFound) {
				log.G(ctx).WithField("task", arn).WithError(err).Warn(
					"a task that should not run was not stopped; it is tried again",
				)
			}
		}
	}
}

// endOne asks for the end of a task and notes what it says of it.
func (p *pods) endOne(ctx context.Context, arn, reason string) error {
	stopped, err := p.remote.stop(ctx, arn, reason)
	if err == nil && stopped != nil {
		p.note(ctx, *stopped, time.Now())
	}
	if errors.Is(err, backend.ErrNotFound) {
		p.known.Missed(arn, time.Now())
	}
	return err
}
