package ecs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/task"
)

// supervisors are those of the containers in tasks: package session.
type supervisors interface {
	// Shorten leaves containers that run no longer than a grace from now, once they are
	// asked to end. It returns soon, whatever becomes of it.
	Shorten(ctx context.Context, arn string, containers []string, grace time.Duration) error
}

// What keeps a grace from being what a deletion asks for.
var (
	errGraceLonger = errors.New("ECS gives them the terminationGracePeriodSeconds that their task was started with, " +
		"and no more")
	errGraceBegun  = errors.New("their end has begun, and nothing in a task that stops can be reached")
	errGraceNoExec = errors.New("ECS Exec is turned off for its task, so that its containers cannot be told: set the " +
		"annotation ecs.burstlet.dev/exec to \"true\", or backend.ecs.exec to true, and start the pod anew")
)

// graceOf tells the containers of a task that is to be stopped of a grace that is shorter
// than that of their definition, which StopTask cannot. It returns when they are killed at
// the latest. An error, marked OtherGrace, says that this is not the grace asked for.
func (p *pods) graceOf(ctx context.Context, h task.Handle, grace time.Duration) (endsBy time.Time, err error) {
	if !h.Live || h.Missing {
		return time.Time{}, nil
	}
	now := time.Now()
	end := p.known.End(h.ARN, now.Add(grace), now)
	switch {
	case end.Early:
		err = errGraceLonger
	case !end.Late:
		return end.By, nil
	case end.Stopping:
		err = errGraceBegun
	case end.NoExec:
		err = errGraceNoExec
	default:
		if err = p.supervisors.Shorten(ctx, h.ARN, end.Running, grace); err == nil {
			return time.Now().Add(grace), nil
		}
	}
	return end.By, backend.OtherGrace(fmt.Errorf("its containers have %s to end, not %s: %w",
		end.Left(now), grace.Round(time.Second), err))
}
