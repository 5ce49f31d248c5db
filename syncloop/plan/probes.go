package plan

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/prober"
)

func probeOf(m podContainer, kind prober.Kind) *corev1.Probe {
	switch {
	case m.role == ephemeralRole || m.role == initRole:
		return nil
	case kind == prober.Startup:
		return m.StartupProbe
	case kind == prober.Liveness:
		return m.LivenessProbe
	}
	return m.ReadinessProbe
}

// probes are those that should be running.
//
//	before its startup probe succeeded   startup alone
//	after that                           liveness, readiness
//	pod ending, container to be ended    readiness alone
//	postStart hook not done              none
func (v view) probes(p *Plan) []prober.Target {
	if v.newest == nil || v.Supervised {
		return nil
	}
	var targets []prober.Target
	for _, list := range [][]podContainer{v.inits, v.apps} {
		for _, m := range list {
			if m.StartupProbe == nil && m.LivenessProbe == nil && m.ReadinessProbe == nil {
				continue
			}
			cur := v.current(m.Name)
			if cur == nil || cur.Pod != v.newest || v.exited(cur) || cur.State() != backend.Running || !v.postStarted(m, cur) {
				continue
			}
			for _, kind := range v.probeKinds(p, m, cur) {
				if probe := probeOf(m, kind); probe != nil {
					targets = append(targets, prober.Target{
						Key: probeKey(m, cur, kind), Ref: cur.Ref(), Probe: probe,
						StartedAt: cur.StartedAt, PodIP: v.podIP(), Spec: m.Container,
					})
				}
			}
		}
	}
	return targets
}

func (v view) probeKinds(p *Plan, m podContainer, cur *ContainerAttempt) []prober.Kind {
	_, ending := p.Terminations[m.Name]
	switch {
	case p.Termination != nil || ending:
		return []prober.Kind{prober.Readiness}
	case !v.started(m, cur):
		return []prober.Kind{prober.Startup}
	}
	return []prober.Kind{prober.Liveness, prober.Readiness}
}

func probeKey(m podContainer, cur *ContainerAttempt, kind prober.Kind) prober.Key {
	return prober.Key{Container: m.Name, ID: cur.ID, Kind: kind}
}

// verdict is what a probe of a running container has found: its own outcome, or
// what the remote says where it probes by itself. Of what failed there, the end of the
// container tells.
func (v view) verdict(m podContainer, cur *ContainerAttempt, kind prober.Kind) prober.Outcome {
	switch {
	case probeOf(m, kind) == nil:
		return prober.Unknown
	case !v.Supervised:
		return v.Probes[probeKey(m, cur, kind)].Outcome
	case kind == prober.Liveness || cur.Healthy == nil:
		return prober.Unknown
	case *cur.Healthy:
		return prober.Success
	case kind == prober.Startup: // it may have passed, and the container not be ready
		return prober.Unknown
	}
	return prober.Failure
}

// started is true for a running container whose postStart hook and startup
// probe succeeded. After a restart of this process one that had started still
// has.
func (v view) started(m podContainer, cur *ContainerAttempt) bool {
	hooked := v.Supervised && postStart(m.Container) != nil
	if !hooked && !v.postStarted(m, cur) {
		return false
	}
	if probeOf(m, prober.Startup) == nil && !hooked {
		return true
	}
	if hooked && cur.Healthy != nil && *cur.Healthy {
		return true
	}
	if found := v.verdict(m, cur, prober.Startup); found != prober.Unknown {
		return found == prober.Success
	}
	prior := v.sameContainer(m, cur)
	return prior != nil && prior.Started != nil && *prior.Started
}

// isReady is true for a started container whose readiness probe succeeded.
// After a restart of this process one that was ready stays so until the probe
// says otherwise.
func (v view) isReady(m podContainer, cur *ContainerAttempt) bool {
	if !v.started(m, cur) {
		return false
	}
	if probeOf(m, prober.Readiness) == nil {
		return true
	}
	if found := v.verdict(m, cur, prober.Readiness); found != prober.Unknown {
		return found == prober.Success
	}
	prior := v.sameContainer(m, cur)
	return prior != nil && prior.Ready
}

// sameContainer is the last status if it is about this very container.
func (v view) sameContainer(m podContainer, cur *ContainerAttempt) *corev1.ContainerStatus {
	if prior := v.prior(m); ran(prior) && prior.ContainerID == v.Runtime+"://"+cur.ID && prior.State.Running != nil {
		return prior
	}
	return nil
}

// recordVerdicts records, as the kubelet would, what the remote found by itself: which
// containers are not started or ready, and which it ended for that.
func (v view) recordVerdicts(p *Plan) {
	if !v.Supervised {
		return
	}
	for _, m := range v.all() {
		if cur := v.current(m.Name); cur != nil && cur.State() == backend.Running && cur.Healthy != nil && !*cur.Healthy {
			if kind := v.failing(m, cur); kind != "" {
				p.recordOf(m.Name, corev1.EventTypeWarning, "Unhealthy", string(kind)+" probe failed")
			}
		}
		for i, ended := range v.history(m.Name) {
			if i == 2 { // the newest attempt, and the one before
				break
			}
			v.recordEnd(p, m, &ended.ContainerFacts)
		}
	}
}

// failing is the probe that a container has not passed, or fails now; empty for one that
// waits for its hook.
func (v view) failing(m podContainer, cur *ContainerAttempt) prober.Kind {
	switch {
	case !v.started(m, cur) && probeOf(m, prober.Startup) != nil:
		return prober.Startup
	case v.started(m, cur) && probeOf(m, prober.Readiness) != nil:
		return prober.Readiness
	}
	return ""
}

// recordEnd records why the remote ended a container, and which of its hooks failed.
// The Event leaves out what a hook printed: it may hold secrets.
func (v view) recordEnd(p *Plan, m podContainer, c *backend.ContainerFacts) {
	if kind, _, ok := strings.Cut(c.Killed, " probe failed"); ok {
		p.recordOf(m.Name, corev1.EventTypeWarning, "Unhealthy", c.Killed)
		p.recordOf(
			m.Name, corev1.EventTypeNormal, "Killing", m.message("failed "+strings.ToLower(kind)+" probe", v.willRestart(m)),
		)
	}
	if c.HookFailed != "" {
		p.recordOf(m.Name, corev1.EventTypeWarning, "Failed"+c.HookFailed+"Hook", c.HookFailed+"Hook failed")
	}
}
