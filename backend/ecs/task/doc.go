// Package task is what is known of the tasks of a node: it reads what ECS shows of one
// ([Observe]: facts.go, reasons.go) and follows them ([Known]).
//
// ECS lists a node's tasks only while they should run. Known keeps those that stop,
// those too new to show, and launches whose outcome is not known; says which tasks are
// to be read again, and when (due.go, pace.go); and holds back the end of a container
// until its log was read for what it says of it, for a while (held.go, reports.go).
//
// It makes no call. It imports package backend, identity, and the texts of awscall.
package task
