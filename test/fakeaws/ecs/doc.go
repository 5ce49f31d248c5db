// Package ecs is a server that answers as Amazon ECS does for standalone tasks
// on Fargate, with what such tasks need beside it: CloudWatch Logs, Secrets
// Manager, S3 and SQS. A client can be tested on it without an account. It speaks
// awsJson1.1 (SQS: awsJson1.0) and is strict about it: a member it does not know,
// a number where AWS wants a string, or a request that AWS would refuse is an
// error with AWS's own code. Without a [Runner] no container runs: what one does is
// read from its command.
//
//   - [Server] is an http.Handler: Start serves it on loopback, Client calls it
//     without a socket, so that it works in virtual time (testing/synctest).
//     Nothing runs in the background without a runner: a state is a function of
//     the clock.
//   - server.go, serve.go and wire.go take requests apart and write answers;
//     auth.go asks for permissions, throttle.go keeps the documented rates,
//     faults.go makes answers fail, get lost or become unreadable, Hook is called
//     around every call.
//   - shapes.go holds the members of requests. definition.go, container.go,
//     volume.go, linux.go, environment.go, health.go, restart.go, logging.go,
//     dependency.go and sizes.go are the rules of RegisterTaskDefinition,
//     definitions.go what becomes of definitions; runtask.go and place.go are
//     RunTask, tasks.go, tags.go and cluster.go the rest of ECS.
//   - script.go and behaviour.go read a command, timeline.go derives a task's whole
//     life from it, resource.go what it needs to start, interrupt.go what AWS does
//     to it, and view.go shows that life as of now.
//   - With a [Runner] (runner.go; package test/fakeaws/ecsrun has one) drive.go,
//     drive_pull.go and drive_containers.go do what the ECS agent does with real containers, and write
//     what happens into the same life that view.go shows; drive_spec.go says what a
//     container is, metadata.go and metadata_stats.go serve the task metadata
//     endpoint and the role's credentials, exec.go runs commands.
//   - execagent.go is what the agent of ECS Exec does to the container that it is in.
//   - ssm.go, datachannel.go, ssmagent.go and ssmway.go are ECS Exec: ExecuteCommand
//     and the data channel of its sessions.
//   - logs.go and loggroups.go show what containers write (prints.go); secrets.go
//     and secretlist.go are Secrets Manager; s3.go is S3 (package test/fakeaws/s3); sqs.go
//     and sqsmessages.go are SQS, events.go fills its queues; readiness.go is what the
//     helper's agent tells there, and when ECS shows the health of containers.
//   - inspect.go, cost.go, bill.go and admin.go are for tests: everything as it is.
//
// Conventions without a runner, beside the scripts of script.go: an image whose last part has
// "missing" or "not-found" in it is in no registry; helper.go names a program that
// clients put into tasks.
//
// Every rule names the AWS page or API that documents it. What AWS does not
// document is marked "undocumented" and stands in one place.
//
// It is large because its services share one account: a task's life, which a dozen of these
// files derive, is what logs, sessions, queues and bills show.
package ecs
