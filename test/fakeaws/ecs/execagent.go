package ecs

import (
	"cmp"
	"time"
)

// execMiB is what amazon-ssm-agent and its worker take of a container's memory: they run
// as root in its cgroup (amazon-ecs-agent, agent/engine/execcmd/manager_start_linux.go; ECS
// developer guide, "Monitor Amazon ECS containers with ECS Exec": they "use some CPU and
// memory"). How much is undocumented.
const execMiB = 40

// execMemory is what the agent takes in each container of a task, in MiB.
func (t *task) execMemory(kind Kindness, seen Observed) int {
	if !t.execute || kind.ExecForFree {
		return 0
	}
	return cmp.Or(seen.ExecMiB, execMiB)
}

// KillExecAgent ends the agent of ECS Exec in a container, with its sessions. The agent of
// ECS starts it again on EC2 (amazon-ecs-agent, agent/engine/execcmd/manager_restart.go);
// that it stays STOPPED on Fargate is undocumented, and reported by users.
func (s *Server) KillExecAgent(task, container string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions.dead == nil {
		s.sessions.dead = map[string]bool{}
	}
	s.sessions.dead[task+" "+container] = true
}

// starved is the end of a container whose memory its agent takes: nothing is left to run in.
var starved = outcome{after: time.Second, exit: exitKill, termExit: exitTerm, oom: true}

// bounded is what a container does in the memory that its agent leaves it.
func (p *plan) bounded(t *task, def *containerDefinition, b *behaviour) *behaviour {
	if m := value(first(p.ov.of(*def.Name).Memory, def.Memory)); m == 0 || int(m) > t.execMemory(p.kind, p.seen) {
		return b
	}
	own := *b // it is shared by tasks
	own.outcome = starved
	return &own
}
