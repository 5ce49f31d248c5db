package task

import (
	"fmt"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/ecs/intask"
)

// endTold is the end of a container that its agent told, with all its words; nil where
// these are yet to be read from its log, and for what ECS itself starts again.
func (e *entry) endTold(id identity.Container) *intask.End {
	end := e.told.lives[id.Name].Ended
	if end == nil || end.Report.FromLogs || id.Sidecar {
		return nil
	}
	return end
}

// contradicted notes since when ECS shows as running what the agent told ended. What it
// shows is late, but a program that is root in its container can write what its supervisor
// would: after toldAgainst ECS is right.
func (e *entry) contradicted(now time.Time) {
	running := map[string]time.Time{}
	for i, c := range e.facts.Containers {
		if e.endTold(e.id.Containers[i]) == nil || c.State() == backend.Exited {
			continue
		}
		running[c.Name] = now
		if since, known := e.told.running[c.Name]; known {
			running[c.Name] = since
		}
	}
	e.told.running = running
}

// live gives containers the ends that the agent told and ECS does not show yet. When a
// container started is ECS's to say while it runs: another process, which was told nothing,
// must find the same.
func (e *entry) live(now time.Time) {
	if !e.facts.Live {
		return
	}
	for i := range e.facts.Containers {
		c, id := &e.facts.Containers[i], e.id.Containers[i]
		life := e.told.lives[c.Name]
		if c.State() == backend.Exited || id.Sidecar {
			continue
		}
		end := e.endTold(id)
		if since := e.told.running[c.Name]; end == nil || !since.IsZero() && now.Sub(since) >= toldAgainst {
			continue
		}
		c.FinishedAt, c.ExitCode, c.Healthy = e.here(end.At), int32(end.Exit), nil
		if c.StartedAt.IsZero() && !life.Started.IsZero() {
			c.StartedAt = e.here(life.Started)
		}
		if c.StartedAt.IsZero() {
			c.StartedAt = c.FinishedAt
		}
	}
}

// here is a time of the task's clock on this machine's.
func (e *entry) here(at time.Time) time.Time {
	if e.local == nil {
		return at
	}
	return e.local(&at)
}

// termination is what is known of the last words of a container.
func (e *entry) termination(id identity.Container) Termination {
	if end := e.endTold(id); end != nil {
		return TerminationOf(e.id, id.Name, end.Report)
	}
	return e.terminations[id.Name]
}

// TerminationOf is the end that a supervisor reports.
func TerminationOf(id identity.Task, container string, report intask.Report) Termination {
	out := Termination{Message: report.Message, Reason: report.Reason, Killed: report.Probe}
	switch {
	case report.Hook != nil:
		out.Hook = "PostStart"
		if out.Message == "" {
			out.Message = report.Hook.Message(container, fmt.Sprintf("%s_%s(%s)", id.Name, id.Namespace, id.UID))
		}
	case report.PreStop != nil:
		out.Hook = "PreStop"
	}
	return out
}
