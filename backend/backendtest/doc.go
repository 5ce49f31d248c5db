// Package backendtest is the contract of package backend as code: every backend
// passes the same checks.
//
// A backend's test calls [Run] with a [Factory], which makes a remote and says
// how to connect to it. Each check is a subtest on a remote and with pods of its
// own; it looks at which fields of the backend are nil and checks what is left,
// so that the same suite serves containers on a host and whole tasks. A check
// that a remote cannot pass by its nature is named in Factory.Skip with the
// reason, and shows as skipped; so does one whose pod Check refuses
// (Factory.Refuses), and one about several app containers where Factory.MaxApps
// is 1. What a backend lends stands in Factory.Lends: it cannot stop lending
// something, and with it pass fewer checks, unnoticed.
//
// The suite knows nothing of how a remote is made. It works in real time on real
// remotes and in virtual time: Factory.Around puts each check into a
// testing/synctest bubble.
//
// Containers are told what to do by their command line, for a busybox image; see
// program in pods.go. Whoever simulates containers reads the same lines.
//
// checks.go is the table of all checks, suite.go the harness around one check,
// pods.go what the checks run and how they look at it.
//
// It is large because it is one suite: its checks share one harness, and the table in
// checks.go names all of them.
package backendtest
