// Package ecs is a server that answers as Amazon ECS does for standalone tasks
// on Fargate, so that a client can be tested without an account. It speaks
// awsJson1.1 and is strict about it: a member it does not know, a number where
// AWS wants a string, or a request that Fargate would refuse is an error with
// AWS's own code. No container runs: what one does is read from its command.
//
//   - [Server] is an http.Handler: Start serves it on loopback, Client calls it
//     without a socket, so that it works in virtual time (testing/synctest).
//   - server.go takes requests apart, wire.go writes answers and errors.
//   - shapes.go holds the members of requests, definition.go and sizes.go the
//     rules of RegisterTaskDefinition, runtask.go those of RunTask with its
//     client tokens, tasks.go DescribeTasks, ListTasks and StopTask.
//   - behaviour.go reads a command, timeline.go derives a task's whole life from
//     it, and view.go shows that life as of now. Nothing runs in the background:
//     a task's state is a function of the clock.
//   - faults.go makes answers fail, get lost or become unreadable.
//
// Every rule names the AWS page or API that documents it. What AWS does not
// document is marked "undocumented" and stands in one place.
package ecs
