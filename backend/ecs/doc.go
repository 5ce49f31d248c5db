// Package ecs is a backend that runs each pod as one task on Amazon ECS with
// Fargate. The pod is the unit of restart: Containers is nil.
//
// A pod becomes a task definition that is named by its content and shared by all
// pods of one shape, because registrations are limited to one a second, and the
// overrides of one RunTask call (package taskdef). Who the
// task is for (node, UID, namespace, name, attempt, container attempts and
// hashes) stands in an environment variable of the overrides, which ECS returns
// as long as it knows the task (package identity).
//
//   - RunTask carries a client token made from UID, attempt and try, so a repeated
//     launch returns the first task. An outcome that is not known is kept as such
//     until a listing that began [Config].Settle later. After a definite refusal for
//     lack of room the engine makes the next try, which goes to another subnet, then
//     to the next kind of capacity.
//   - ECS lists a node's tasks only while they should run. Tasks that stop are
//     followed by the names known in memory (package task); a new process finds those
//     still stopping, and those stopped in the last hour, by one sweep over the
//     cluster's stopped tasks (read.go). Older ends are lost.
//   - Reads are made when they are due: what comes or goes is described every second
//     or two, all of it is listed and described every 5 seconds to a minute by how
//     many there are, and at once what EventBridge hints at. Between them List
//     answers from memory. DescribeTasks is asked for a hundred at a time.
//   - Facts are read from the task. ECS has no times of single containers. An app
//     container starts when the task did and ends when execution stopped; an init
//     container ends when its end was first seen, or, after a restart, when the task
//     started. A time once derived is kept.
//   - The grace of a stop is the definition's stopTimeout, 2 to 120 seconds, from
//     terminationGracePeriodSeconds. ECS can neither shorten nor lengthen it later; a shorter
//     one is told to the supervisors in the task before it is stopped (grace.go).
//   - Remove asks for a stop and forgets the task once it is STOPPED, when nothing
//     of it runs, holds an address or is billed. ECS forgets it an hour later.
//   - Which containers are ready ECS shows late and sends no events about: where there is
//     a queue, burstlet-agent in the task tells it there, signed (task/told.go).
//   - taskdef says of every field of a pod who honours it, and refuses the rest by
//     name.
//   - What a task needs and may not stand in its definition or overrides is kept in
//     Secrets Manager by package payload and written inside the task by package intask.
//   - session lends what goes on in tasks that run: exec, attach, forward, dial, stats.
//   - doctor checks all that a node needs, by calls that only read.
//   - garbage.go and families.go delete definitions and secrets that no task uses.
//   - logs reads CloudWatch Logs, the ends of logs too that are termination messages
//     and the supervisors' reports; the facts of an end wait for those for a while,
//     and a new process reads them again, for which nothing waits.
//   - taskevents reads the queue of task events, refusal judges what AWS refuses in
//     unknown words, cost counts what tasks cost.
//   - awscall maps AWS's codes to the classes of package backend, says what to do
//     about them, and has the queue of calls, which a launch leaves whose pod is to
//     end; buckets.go keeps calls below AWS's documented rates; the SDK's retryer is
//     the only layer of retries. Where one of the calls that it repeated had no
//     answer, the outcome of all is unknown.
//
// It is large because it still holds what calls ECS itself, definitions and
// garbage, beside the wiring of its parts.
package ecs
