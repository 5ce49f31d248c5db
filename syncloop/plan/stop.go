package plan

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/prober"
	"github.com/burstlet/burstlet/syncloop/resolve"
)

// terminations ends single containers of a pod that lives on. An order stays until its
// container has exited.
func (v view) terminations(p *Plan) {
	for _, m := range v.all() {
		cur := v.current(m.Name)
		if cur == nil || !v.inSandbox(cur) || v.outdated(m, cur) {
			continue
		}
		order, ordered := v.Memory.Terminations[m.Name]
		if ordered = ordered && order.ID == cur.ID; !ordered {
			if cur.State() != backend.Running {
				continue
			}
			if order, ordered = v.mustEnd(m, cur); !ordered {
				continue
			}
		}
		p.terminate(m.Name, order)
		if cur.State() == backend.Running {
			v.endContainer(p, m, cur, order.Deadline, order.Why)
		}
	}
}

// mustEnd says whether a running container must end though its pod lives on.
//
//	spec changed (its image)   restarted, whatever its policy
//	startup probe failed       ended; the restart policy decides
//	liveness probe failed      ended; the restart policy decides
//	to be resized, and its     restarted, whatever its policy
//	resizePolicy says so
//	postStart hook failed      ended; the restart policy decides
func (v view) mustEnd(m podContainer, cur *ContainerAttempt) (ContainerTermination, bool) {
	order := ContainerTermination{ID: cur.ID, Deadline: v.Now.Add(v.grace())}
	replaced := m.role == appRole || m.role == sidecarRole
	switch {
	case replaced && cur.Hash != "" && cur.Hash != resolve.Hash(m.Container):
		order.Replace = true
		order.Why = m.message("definition changed", ", will be restarted")
	case v.verdict(m, cur, prober.Startup) == prober.Failure:
		order.Deadline = v.Now.Add(v.probeGrace(m, prober.Startup))
		order.Why = m.message("failed startup probe", v.willRestart(m))
	case v.verdict(m, cur, prober.Liveness) == prober.Failure:
		order.Deadline = v.Now.Add(v.probeGrace(m, prober.Liveness))
		order.Why = m.message("failed liveness probe", v.willRestart(m))
	case v.resizeRestarts(m, cur):
		order.Replace = true
		order.Why = "Container " + m.Name + " resize requires restart"
	case v.Memory.Hooks[hookKey(m, cur, PostStart)].Failed:
		order.Why = "FailedPostStartHook"
	default:
		return order, false
	}
	return order, true
}

// message is the kubelet's, why a container ends; of init containers it
// does not say what follows.
func (m podContainer) message(why, follows string) string {
	if m.role.initial() {
		return "Init container " + m.Name + " " + why
	}
	return "Container " + m.Name + " " + why + follows
}

func (v view) willRestart(m podContainer) string {
	if restartPolicy(v.Pod, m) != corev1.RestartPolicyNever {
		return ", will be restarted"
	}
	return ""
}

// probeGrace is a probe's own grace or the pod's.
func (v view) probeGrace(m podContainer, kind prober.Kind) time.Duration {
	if probe := probeOf(m, kind); probe != nil && probe.TerminationGracePeriodSeconds != nil {
		return seconds(probe.TerminationGracePeriodSeconds, 0)
	}
	return v.grace()
}

// endContainer runs the preStop hook of a container, then stops it. A hook that
// takes the whole grace leaves the container a moment still (kubelet:
// minimumGracePeriodInSeconds).
func (v view) endContainer(p *Plan, m podContainer, cur *ContainerAttempt, deadline time.Time, why string) {
	if v.preStops(p, m, cur, deadline) {
		return
	}
	v.stopContainer(p, cur, deadline, why)
}

// preStops is true while the container's preStop hook must be waited for.
func (v view) preStops(p *Plan, m podContainer, cur *ContainerAttempt, deadline time.Time) bool {
	handler, key := preStop(m.Container), hookKey(m, cur, PreStop)
	_, stopped := v.Memory.ContainerStops[stopKey(cur)]
	if handler == nil || v.Supervised || stopped || v.Memory.Hooks[key].Done || !v.Now.Before(deadline) {
		return false
	}
	p.Hooks = append(p.Hooks, Hook{Key: key, Ref: cur.Ref(), Handler: handler, PodIP: v.podIP(), Spec: m.Container})
	p.Wake(deadline)
	return true
}

func (v view) stopContainer(p *Plan, cur *ContainerAttempt, deadline time.Time, why string) {
	ask, asked := v.Memory.ContainerStops[stopKey(cur)]
	deadline, grace, due := v.stopDue(p, ask, asked, deadline)
	if !due {
		return
	}
	p.Actions = append(p.Actions, StopContainer{
		Ref: cur.Ref(), Grace: v.capped(grace), Deadline: deadline, First: !asked, Why: why, key: stopKey(cur),
	})
}

// stopDue returns the deadline and grace of a stop, and whether it is to be requested
// now: at once, again when the deadline moved closer, and again after a while if no exit
// is seen. All but the last leave at least MinGrace.
func (v view) stopDue(p *Plan, last StopRequest, asked bool, deadline time.Time) (time.Time, time.Duration, bool) {
	if asked && last.Deadline.Before(deadline) {
		deadline = last.Deadline
	}
	if !asked || deadline.Before(last.Deadline) {
		return deadline, max(MinGrace, deadline.Sub(v.Now)), true
	}
	if again := last.At.Add(stopRepeat); v.Now.Before(again) {
		p.Wake(again)
		return deadline, 0, false
	}
	return deadline, max(0, deadline.Sub(v.Now)), true
}

func (v view) capped(grace time.Duration) time.Duration {
	if v.MaxGrace > 0 {
		return min(grace, v.MaxGrace)
	}
	return grace
}

// stopInOrder ends the containers of the pod's attempt one by one: every
// preStop hook runs at once, sidecars are stopped after the app containers, in
// the reverse order of their start (kubelet: terminationOrdering). At the
// deadline the wait is over.
func (v view) stopInOrder(p *Plan, a *backend.PodFacts, deadline time.Time) {
	late := !v.Now.Before(deadline)
	runs, served := false, false // served: something that the next sidecar serves still runs
	stop := func(m podContainer) {
		cur := v.current(m.Name)
		if cur == nil || cur.Pod != a || cur.State() != backend.Running {
			return
		}
		waits := v.preStops(p, m, cur, deadline)
		switch {
		case waits:
		case m.role == sidecarRole && served && !late:
			p.Wake(deadline)
		default:
			v.stopContainer(p, cur, deadline, "")
		}
		runs = true
		served = served || m.role == appRole || m.role == sidecarRole
	}
	for _, list := range [][]podContainer{v.apps, v.ephemerals} {
		for _, m := range list {
			stop(m)
		}
	}
	for i := len(v.inits) - 1; i >= 0; i-- {
		stop(v.inits[i])
	}
	if !runs { // what was made and never started goes with its sandbox
		v.stop(p, a, deadline)
	}
}

// hooksFirst is true while preStop hooks of a pod that is stopped as one must be
// waited for.
func (v view) hooksFirst(p *Plan, a *backend.PodFacts, deadline time.Time) bool {
	waits := false
	if _, asked := v.Memory.Stops[a.Attempt]; asked {
		return false
	}
	for _, m := range v.all() {
		if cur := v.current(m.Name); cur != nil && cur.Pod == a && cur.State() == backend.Running {
			waits = v.preStops(p, m, cur, deadline) || waits
		}
	}
	return waits
}

func stopKey(cur *ContainerAttempt) string { return fmt.Sprintf("%s/%s", cur.Name, cur.ID) }
