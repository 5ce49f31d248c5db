package ecs

import "time"

// execMiB is what amazon-ssm-agent and its worker take of a container's memory: they run
// as root in its cgroup (amazon-ecs-agent, agent/engine/execcmd/manager_start_linux.go; ECS
// developer guide, "Monitor Amazon ECS containers with ECS Exec": they "use some CPU and
// memory"). How much is undocumented.
const execMiB = 40

// execMemory is what the agent takes in each container of a task, in MiB.
func (t *task) execMemory(kind Kindness) int {
	if !t.execute || kind.ExecForFree {
		return 0
	}
	return execMiB
}

// starved is the end of a container whose memory its agent takes: nothing is left to run in.
var starved = outcome{after: time.Second, exit: exitKill, termExit: exitTerm, oom: true}
