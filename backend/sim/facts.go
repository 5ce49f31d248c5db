package sim

import (
	"slices"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// Facts is what truly exists now, of all nodes, in the order of launching:
// without latency, and past every decorator. It is for the invariants of tests.
func (r *Remote) Facts() []backend.PodFacts {
	now := r.lock()
	defer r.mu.Unlock()
	return r.facts(now, func(*attempt) bool { return true })
}

func (r *Remote) facts(now time.Time, want func(*attempt) bool) []backend.PodFacts {
	out := make([]backend.PodFacts, 0, len(r.order)-r.holes)
	for _, a := range r.order {
		if a != nil && want(a) && !a.isGone(now) {
			out = append(out, r.factsOf(a, now))
		}
	}
	return out
}

// factsOf are an attempt's, with what the remote has recorded of its pod.
func (r *Remote) factsOf(a *attempt, now time.Time) backend.PodFacts {
	f := a.facts(now)
	f.Evicted = r.evicted[a.ref.UID]
	return f
}

// facts is the part of the projection that is not after now.
func (a *attempt) facts(now time.Time) backend.PodFacts {
	f := backend.PodFacts{Ref: a.ref, CreatedAt: shown(a.created, now), Live: a.live(now)}
	switch {
	case f.Live && reached(a.broken, now):
		f.Reason, f.Message = backend.SandboxNotReady, "the sandbox was killed"
	case f.Live:
		if reached(a.ready, now) {
			f.IPs, f.HostIPs = slices.Clone(a.ips), slices.Clone(a.hostIPs)
		}
	default:
		f.StoppedAt = shown(a.dead, now)
		f.Reason, f.Message = a.reason, a.message
	}
	if len(a.containers) == 0 {
		return f
	}
	f.Containers = make([]backend.ContainerFacts, len(a.containers))
	for i, c := range a.containers {
		f.Containers[i] = c.facts(now)
		f.Containers[i].Healthy = a.healthy(c, now)
	}
	return f
}

func (c *container) facts(now time.Time) backend.ContainerFacts {
	f := backend.ContainerFacts{
		Name: c.name, ID: c.id, Attempt: c.attempt, Hash: c.hash, Round: c.spec.Round,
		Image: c.image, ImageID: c.imageID,
		CreatedAt:  shown(c.created, now),
		StartedAt:  shown(c.started, now),
		FinishedAt: shown(c.finished, now),
	}
	if !f.StartedAt.IsZero() {
		f.User, f.Resources = c.user, c.held
	}
	if c.exited(now) {
		f.ExitCode, f.OOM, f.Reason, f.Message = c.exitCode, c.oom, c.reason, c.message
		if f.Message == "" {
			f.Message = c.terminationMessage(now)
		}
	}
	return f
}

// healthy is the verdict of the remote's own health check of a container that
// has a probe; nil before there is one.
func (a *attempt) healthy(c *container, now time.Time) *bool {
	if !a.health || !c.probed() || !c.runs(a, now) {
		return nil
	}
	up, down := c.verdicts()
	if !reached(up, now) {
		return nil
	}
	return new(!reached(down, now))
}

func (c *container) probed() bool {
	s := &c.spec.Container
	return s.ReadinessProbe != nil || s.LivenessProbe != nil || s.StartupProbe != nil
}

// verdicts are when the health check begins to say yes, and then no; zero is
// never.
func (c *container) verdicts() (up, down time.Time) {
	up = c.started.Add(c.program.HealthyAfter)
	if c.program.UnhealthyAfter > 0 {
		down = c.started.Add(c.program.UnhealthyAfter)
	}
	return up, down
}

// shown is a time as a remote would report it: unknown before it has come, and
// without this process's monotonic clock.
func shown(t, now time.Time) time.Time {
	if !reached(t, now) {
		return time.Time{}
	}
	return t.Round(0)
}
