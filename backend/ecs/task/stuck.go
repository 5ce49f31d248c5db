package task

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/burstlet/burstlet/backend/ecs/identity"
)

// StuckReason is the reason of the StopTask call for a task that can only end: one of its
// init containers failed.
const StuckReason = StopReason + ": an init container failed"

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

// Stuck are the tasks that can only end and that nobody has stopped.
func (m *Known) Stuck() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var arns []string
	for arn, e := range m.tasks {
		if e.stuck && e.facts.Live && !e.stopping {
			arns = append(arns, arn)
		}
	}
	slices.Sort(arns)
	return arns
}

// IsStuck receives after a task was seen that can only end.
func (m *Known) IsStuck() <-chan struct{} { return m.stuck }
