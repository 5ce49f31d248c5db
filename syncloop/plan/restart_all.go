package plan

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// The kubelet's words for a pod whose containers all restart.
const (
	reasonRestartAllStarted = "RestartAllContainersStarted"
	reasonRestartingAll     = "RestartingAllContainers"
	messageRestartingAll    = "all containers of the pod restart, because one ended as its restartPolicyRules name it"
)

// An exit that a rule with the action RestartAllContainers matches begins a new round: all
// init and app containers end, init containers run again, and the sandbox, its address and
// the volumes stay. A kubelet removes all containers for that, so that what is there is
// new; here each container has its round for a label, so that nothing but the remote needs
// to know how far a restart has come, and the logs of the round before stay.
//
//	in an earlier round, runs     ended at once: no preStop hook, least grace; sidecars last
//	in an earlier round, made     removed
//	in an earlier round, ended    starts again when its turn comes, whatever its policy
//	in this round                 as in any pod
//	ephemeral                     not touched
//
// There is no crash backoff between rounds, as with a kubelet, which has forgotten the
// containers by then.

// roundNow is the round of new containers: that of the newest ones, or the next one once
// one of those ended with RestartAllContainers.
func (v view) roundNow() int {
	if v.PodUnit() || !v.mayRestartAll() {
		return 0
	}
	round := 0
	for _, list := range [][]podContainer{v.inits, v.apps} {
		for _, m := range list {
			for _, c := range v.history(m.Name) {
				if round = max(round, c.Round); v.endsRound(m, &c) {
					round = max(round, c.Round+1)
				}
			}
		}
	}
	return round
}

// mayRestartAll is true for pods that an exit may restart as a whole.
func (v view) mayRestartAll() bool {
	restarts := func(r corev1.ContainerRestartRule) bool {
		return r.Action == corev1.ContainerRestartRuleActionRestartAllContainers
	}
	for _, list := range [][]podContainer{v.inits, v.apps} {
		for _, m := range list {
			if slices.ContainsFunc(m.RestartPolicyRules, restarts) {
				return true
			}
		}
	}
	return false
}

func (v view) endsRound(m podContainer, c *ContainerAttempt) bool {
	return v.exited(c) &&
		ruleAction(m.RestartPolicyRules, exitCode(c)) == corev1.ContainerRestartRuleActionRestartAllContainers
}

// outdated is true for what was made in an earlier round.
func (v view) outdated(m podContainer, c *ContainerAttempt) bool {
	return m.role != ephemeralRole && c.Round < v.round
}

// endRound ends what is left of earlier rounds in the live sandbox: true while there is
// something. Sidecars serve the app containers to their end.
func (v view) endRound(p *Plan) (left bool) {
	for _, list := range [][]podContainer{v.apps, v.inits} {
		for _, m := range list {
			cur := v.current(m.Name)
			if cur == nil || !v.inSandbox(cur) || !v.outdated(m, cur) {
				continue
			}
			switch cur.State() {
			case backend.Running:
				v.endOutdated(p, m, cur)
			case backend.Waiting:
				v.removeContainer(p, cur)
			case backend.Exited:
				continue
			}
			left = true
		}
		if left {
			return true
		}
	}
	// What starts late belongs to the round before, too.
	return v.roundBegins() && v.startsUnsettled(p)
}

func (v view) endOutdated(p *Plan, m podContainer, cur *ContainerAttempt) {
	order := v.Memory.Terminations[m.Name]
	if order.ID != cur.ID || v.Now.Before(order.Deadline) {
		why := m.message("restarts with all containers of the pod", "")
		order = ContainerTermination{ID: cur.ID, Deadline: v.Now, Why: why}
	}
	p.terminate(m.Name, order)
	v.stopContainer(p, cur, order.Deadline, order.Why)
}

// restartingAllCondition shows a round that has begun and has no container yet
// (kubelet: GenerateAllContainersRestartingCondition).
func (v view) restartingAllCondition(p *Plan, s *corev1.PodStatus) []corev1.PodCondition {
	if !v.mayRestartAll() || v.PodUnit() {
		return nil
	}
	c := condition(corev1.AllContainersRestarting, false)
	switch {
	case s.Phase == corev1.PodSucceeded:
		c.Reason = "PodCompleted"
	case s.Phase == corev1.PodFailed:
		c.Reason = "PodFailed"
	case p.Termination == nil && v.roundBegins():
		c.Status, c.Reason, c.Message = corev1.ConditionTrue, reasonRestartAllStarted, v.whyRound()
	}
	return []corev1.PodCondition{c}
}

// roundBegins is true until the first container of the round is there.
func (v view) roundBegins() bool {
	for _, list := range [][]podContainer{v.inits, v.apps} {
		for _, m := range list {
			if cur := v.current(m.Name); cur != nil && cur.Round == v.round {
				return false
			}
		}
	}
	return v.round > 0
}

// whyRound names the container whose end began the round.
func (v view) whyRound() string {
	for _, list := range [][]podContainer{v.inits, v.apps} {
		for _, m := range list {
			for _, c := range v.history(m.Name) {
				if c.Round == v.round-1 && v.endsRound(m, &c) {
					return fmt.Sprintf("container %s exited with restart policy rule (exit code %d)", m.Name, exitCode(&c))
				}
			}
		}
	}
	return ""
}
