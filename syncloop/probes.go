package syncloop

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/prober"
)

func probeOf(m member, kind prober.Kind) *corev1.Probe {
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
	if v.newest == nil || v.Health {
		return nil
	}
	var targets []prober.Target
	for _, list := range [][]member{v.inits, v.apps} {
		for _, m := range list {
			if m.StartupProbe == nil && m.LivenessProbe == nil && m.ReadinessProbe == nil {
				continue
			}
			cur := v.current(m.Name)
			if cur == nil || cur.pod != v.newest || v.exited(cur) || cur.State() != backend.Running || !v.postStarted(m, cur) {
				continue
			}
			for _, kind := range v.probeKinds(p, m, cur) {
				if probe := probeOf(m, kind); probe != nil {
					targets = append(targets, prober.Target{
						Key: probeKey(m, cur, kind), Ref: cur.ref(), Probe: probe,
						StartedAt: cur.StartedAt, PodIP: v.podIP(), Spec: m.Container,
					})
				}
			}
		}
	}
	return targets
}

func (v view) probeKinds(p *Plan, m member, cur *seen) []prober.Kind {
	_, ending := p.Endings[m.Name]
	switch {
	case p.Kill != nil || ending:
		return []prober.Kind{prober.Readiness}
	case !v.started(m, cur):
		return []prober.Kind{prober.Startup}
	}
	return []prober.Kind{prober.Liveness, prober.Readiness}
}

func probeKey(m member, cur *seen, kind prober.Kind) prober.Key {
	return prober.Key{Container: m.Name, ID: cur.ID, Kind: kind}
}

// verdict is what a probe of a running container has found: its own outcome, or
// that of the remote's health check where the remote probes by itself.
func (v view) verdict(m member, cur *seen, kind prober.Kind) prober.Outcome {
	switch {
	case probeOf(m, kind) == nil:
		return prober.Unknown
	case !v.Health:
		return v.Probes[probeKey(m, cur, kind)].Outcome
	case cur.Healthy == nil:
		return prober.Unknown
	case *cur.Healthy:
		return prober.Success
	case kind == prober.Startup: // a remote's health check begins after its start period
		return prober.Unknown
	}
	return prober.Failure
}

// started is true for a running container whose postStart hook and startup
// probe succeeded. After a restart of this process one that had started still
// has.
func (v view) started(m member, cur *seen) bool {
	if !v.postStarted(m, cur) {
		return false
	}
	if probeOf(m, prober.Startup) == nil {
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
func (v view) isReady(m member, cur *seen) bool {
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
func (v view) sameContainer(m member, cur *seen) *corev1.ContainerStatus {
	if prior := v.prior(m); ran(prior) && prior.ContainerID == v.Runtime+"://"+cur.ID && prior.State.Running != nil {
		return prior
	}
	return nil
}
