// Package ecs is a backend that runs each pod as one task on Amazon ECS with
// Fargate. The pod is the unit of restart: Containers is nil.
//
// A pod becomes a task definition that is named by its content and shared by all
// pods of one shape (translate.go, size.go), because registrations are limited
// to one a second, and the overrides of one RunTask call (launch.go). Who the
// task is for (node, UID, namespace, name, attempt, container attempts and
// hashes) stands in an environment variable of the overrides, which ECS returns
// as long as it knows the task (identity.go).
//
//   - RunTask carries a client token made from UID and attempt, so a repeated
//     launch returns the first task. An outcome that is not known is kept as such
//     for [Config].Settle.
//   - ECS lists a node's tasks only while they should run. Tasks that stop are
//     followed by the names known in memory (memory.go); a new process finds those
//     still stopping, and those stopped in the last hour, by one sweep over the
//     cluster's stopped tasks (read.go). Older ends are lost.
//   - Facts are read from the task (facts.go, reasons.go). ECS has no times of
//     single containers. An app container starts when the task did and ends when
//     execution stopped; an init container ends when its end was first seen, or,
//     after a restart, when the task started. A time once derived is kept.
//   - The grace of a stop is the definition's stopTimeout, 2 to 120 seconds, from
//     terminationGracePeriodSeconds. ECS can neither shorten nor lengthen it later.
//   - Remove asks for a stop and forgets the task once it is STOPPED, when nothing
//     of it runs, holds an address or is billed. ECS forgets it an hour later.
//   - fields.go says of every field of a pod who honours it; check.go refuses the
//     rest by name.
//   - errors.go maps AWS's codes to the classes of package backend; buckets.go
//     keeps calls below AWS's documented rates; the SDK's retryer is the only
//     layer of retries.
package ecs
