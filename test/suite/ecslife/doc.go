// Package ecslife has tests of whole lives: the engine on the ECS backend on the
// ECS server of test/fakeaws/ecs, in one process and in virtual time. harness_test.go is
// the API server and the process that may die, table_test.go what a user sees of
// what may happen to a task, crash_test.go deaths at every call to AWS.
package ecslife
