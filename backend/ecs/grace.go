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
	// asked to end. It returns when ctx ends at the latest.
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
		if err = p.shorten(ctx, h.ARN, end, grace); err == nil {
			return time.Now().Add(grace), nil
		}
	}
	return end.By, backend.OtherGrace(fmt.Errorf("its containers have %s to end, not %s: %w",
		end.Left(now), grace.Round(time.Second), err))
}

// tellingMax bounds the telling of a grace, for which StopTask waits: a session of ECS Exec takes
// one to three seconds to open, and half a minute where the agent or this process is busy. An agent
// that is not there is given up earlier (package session).
const tellingMax = 45 * time.Second

// telling is how long the telling of a grace may take that saves so much: no longer than half of
// it, so that what is saved is more than what the attempt costs.
func telling(saves time.Duration) time.Duration { return min(saves/2, tellingMax) }

func (p *pods) shorten(ctx context.Context, arn string, end task.End, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, telling(time.Until(end.By)-grace))
	defer cancel()
	return p.supervisors.Shorten(ctx, arn, end.Running, grace)
}
