package task

import (
	"cmp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/burstlet/burstlet/backend/ecs/identity"
)

// stuckReason is the reason of the StopTask call for a task that can only end: one of its
// init containers failed.
const stuckReason = StopReason + ": an init container failed"

// cannotStart begins the reason of a container that did not start (ECS developer guide,
// "CannotStartContainer task errors").
const cannotStart = "CannotStartContainerError"

// depends begins the reason of a container for which another would have had to succeed
// (amazon-ecs-agent, task_manager.go, handleTerminalDependencyError). ECS shows it with
// exit code 143 although nothing of it ran.
const depends = cannotStart + ": dependency graph"

// waitedInVain is true for a container that did not start because of another.
func waitedInVain(c types.Container) bool { return strings.HasPrefix(aws.ToString(c.Reason), depends) }

// notStarted is true for a container whose start failed, whatever exit code it is shown
// with.
func notStarted(c types.Container) bool {
	return strings.HasPrefix(aws.ToString(c.Reason), cannotStart)
}

// failed is true for a container that ended otherwise than with 0, or did not start.
func failed(c types.Container) bool {
	if aws.ToString(c.LastStatus) != statusStopped {
		return false
	}
	return notStarted(c) || aws.ToInt32(c.ExitCode) != 0 || c.ExitCode == nil && aws.ToString(c.Reason) != ""
}

// stuck is true for a task that should run and can only end: burstlet-init or an init
// container failed, so what waits for its success never starts. ECS may leave such a task
// PENDING, and billed, for ever.
func (o *Observation) stuck() bool {
	return !o.ending() && (failed(o.containers[identity.InitName]) ||
		slices.ContainsFunc(o.id.Containers, func(id identity.Container) bool {
			return once(id) && failed(o.containers[id.Name])
		}))
}

// doubleReason is that for a task beside which another of the same attempt runs.
const doubleReason = StopReason + ": another task of this attempt runs"

// Unwanted are the tasks that nobody has stopped and that should not run, with the reason
// of their StopTask call: those that can only end, and all but one of an attempt.
func (m *Known) Unwanted() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]string{}
	for arn, e := range m.tasks {
		switch {
		case !e.facts.Live || e.stopping || !e.missing.IsZero():
		case e.double:
			out[arn] = doubleReason
		case e.stuck:
			out[arn] = stuckReason
		}
	}
	return out
}

// IsUnwanted receives after a task was seen that should not run.
func (m *Known) IsUnwanted() <-chan struct{} { return m.unwanted }

// unwantedNow marks the tasks that should not run, after a task was read. Two tasks of one
// attempt are what a remote makes that forgets a client token: the older one is the pod's,
// and the others are nobody's, whose facts are not shown. The caller holds the lock.
func (m *Known) unwantedNow(e *entry, o *Observation) {
	e.stuck = !e.partial && o.stuck()
	e.double = e.double || aws.ToString(o.task.StoppedReason) == doubleReason
	var live []*entry
	for _, arn := range m.byUID[e.id.UID] {
		if other := m.tasks[arn]; other.id.Attempt == e.id.Attempt && other.facts.Live && !other.partial && !other.double {
			live = append(live, other)
		}
	}
	slices.SortFunc(live, func(a, b *entry) int {
		return cmp.Or(a.facts.CreatedAt.Compare(b.facts.CreatedAt), cmp.Compare(a.facts.ID, b.facts.ID))
	})
	for i, other := range live {
		other.double = i > 0
	}
	if e.stuck || e.double || len(live) > 1 {
		wake(m.unwanted)
	}
}
