package ecs

import (
	"context"
	"errors"
	"time"

	"github.com/containerd/log"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/task"
)

// endStuck stops, until the context ends, the tasks that can only end (task.Known.Stuck).
// What fails is tried again when the task is read the next time, a moment later.
func (p *pods) endStuck(ctx context.Context, may backend.Permit) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.known.IsStuck():
		}
		for _, arn := range p.known.Stuck() {
			err := may.Ask("stop a task whose init container failed")
			if err == nil {
				err = p.endOne(ctx, arn, task.StuckReason)
			}
			if err != nil && ctx.Err() == nil && !errors.Is(err, backend.ErrThrottled) && !errors.Is(err, backend.ErrNotFound) {
				log.G(ctx).WithField("task", arn).WithError(err).Warn("Stopping a task whose init container failed; it is tried again")
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
	return err
}
