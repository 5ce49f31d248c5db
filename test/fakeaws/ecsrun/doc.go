// Package ecsrun runs the tasks of package test/fakeaws/ecs as real containers: it is an
// ecs.Runner on the CRI v1 socket of a containerd (test/parts/remotehost's).
//
//   - runner.go connects; host.go puts a runner on a host and its
//     metadata server on 169.254.170.2 there.
//   - task.go makes one sandbox for each task, which is its network namespace,
//     volume.go its directories, cgroup.go the bound on its memory.
//   - container.go runs containers, spec.go adds what CRI has no word for (tmpfs,
//     ulimits), log.go reads what they write, exec.go and terminal.go run commands
//     in them, agent.go is what stands in for the agent of ECS Exec there, usage.go says
//     what they use.
//
// What differs from Fargate: an image's VOLUME directories are not copied into
// volumes mounted there; a task's cpu is no bound, only a share; an image that the
// containerd has is not pulled again; initProcessEnabled has no effect; a user
// cannot have a group by name.
package ecsrun
