// Package intask is what runs inside a task: the command burstlet-task, one static
// file without Kubernetes' libraries and without a shell. It knows AWS by a few HTTP
// calls (credentials.go, secret.go, object.go, addresses.go).
//
//   - materialize, in the container burstlet-init that starts before all others, puts
//     the program where the pod's containers find it and writes the files of volumes.
//     Those that pods of one shape share come in the environment, which ECS fills from
//     Secrets Manager with the execution role; those of the pod alone (tokens) are
//     fetched with the task role and decrypted with a key that only this task was
//     given (package podfiles).
//   - supervise runs one container of the pod as a kubelet and its runtime would, for
//     ECS does not: users, groups and capabilities of the security context, hosts and
//     resolver, parts of volumes, probes to the second, hooks, graces, termination
//     messages. Its last words are a Report in the container's log.
//   - health is the container's health check for ECS: whether it is ready.
//   - agent, in the container burstlet-agent, refreshes files (refresh.go), tells which
//     containers are ready (reporter.go, readiness.go), is where sessions from outside
//     land, and lives until the last app container has stopped: to ECS the end of an
//     essential container is the end of the task.
//   - session carries one such session to the SSH server of a container (sshd.go).
//
// spec.go is what a supervisor is told, package podfiles the format of files, names.go
// the variables and paths, report.go the last words: each of both sides.
//
// A supervisor, step by step:
//
//	supervise.go   prepare: orders, user (users.go, capabilities.go), addresses, env
//	               (environ.go), hosts.go, resolv.go, subpaths.go; run; report
//	watch.go       one loop: signals, outcomes of probes, ends of hooks, graces, of which
//	               a shorter one comes over a session (RequestGrace)
//	probe.go       when to probe and what counts; check*.go how; hook.go hooks
//	container.go   starts processes by way of enter.go, which gives up rights in a
//	               process of its own; reaper.go waits for all of them
//
// It is large because it is a whole program. Of the rest it imports backend/httpget and
// backend/resolvconf alone, which stand on the standard library.
package intask
