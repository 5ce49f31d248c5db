package task

import (
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/burstlet/burstlet/backend"
)

// endHold is how long the end of a container is held back at most, from when it was
// first seen, until its supervisor's report was read: what it says (the termination
// message, the probe that ended it) would else come after the status that it belongs to.
const endHold = reportLast

// heldEnd is one that is not shown yet.
type heldEnd struct {
	until time.Time
	// healthy is the last verdict from before the end.
	healthy *bool
}

// holdEnd holds back the end of a container, first seen now.
func (e *entry) holdEnd(name string, healthy *bool, now time.Time) {
	if e.dismissed {
		return
	}
	if e.held == nil {
		e.held = map[string]heldEnd{}
	}
	e.held[name] = heldEnd{until: now.Add(endHold), healthy: healthy}
}

// Dismiss shows the ends of a task's containers as they come: nobody waits any more for
// what they say.
func (m *Known) Dismiss(arn string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.tasks[arn]; e != nil {
		e.dismissed = true
		clear(e.held)
	}
}

// shown are the facts of a task with what is held back as it was before. Of one that
// has stopped nothing is held back, since what runs in no task is no container; nor is
// the end of an init container behind which another has started.
func (e *entry) shown(now time.Time) backend.PodFacts {
	f := e.copied()
	maps.DeleteFunc(e.held, func(name string, h heldEnd) bool {
		return !f.Live || !now.Before(h.until) || e.followed(name)
	})
	for i := range f.Containers {
		c := &f.Containers[i]
		if h, ok := e.held[c.Name]; ok {
			c.FinishedAt, c.ExitCode, c.OOM = time.Time{}, 0, false
			c.Reason, c.Message, c.Killed, c.HookFailed = "", "", "", ""
			c.Healthy = h.healthy
		}
	}
	return f
}

// followed is true for an init container behind which another has started: that one
// waited for its end.
func (e *entry) followed(name string) bool {
	i := slices.IndexFunc(e.facts.Containers, func(c backend.ContainerFacts) bool { return c.Name == name })
	return i >= 0 && once(e.id.Containers[i]) &&
		slices.ContainsFunc(e.facts.Containers[i+1:],
			func(c backend.ContainerFacts) bool { return !c.StartedAt.IsZero() })
}

// copied are the facts as they are.
func (e *entry) copied() backend.PodFacts {
	f := e.facts
	f.IPs, f.HostIPs, f.Containers = slices.Clone(f.IPs), slices.Clone(f.HostIPs), slices.Clone(f.Containers)
	return f
}

// stoppedByUs is true for a task that ends because its pod was told to. What the
// containers of a stuck one (stuckReason) say is still wanted.
func stoppedByUs(t types.Task) bool {
	return t.StopCode == types.TaskStopCodeUserInitiated && aws.ToString(t.StoppedReason) == StopReason
}
