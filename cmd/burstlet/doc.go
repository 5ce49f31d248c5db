// Command burstlet is a virtual kubelet: it registers a node in a Kubernetes
// cluster and runs the pods bound to it on a remote.
//
// main.go owns the process: signals and the exit code. root.go is the command
// tree; run.go, sim.go, remove.go, approve.go, doctor.go, explain.go and version.go are
// its commands. flags.go turns the settings of package config into flags, and logging.go
// sets up the log.
//
// process.go runs the nodes of the process side by side and starts again what
// failed; package health tells probes how they are, heap.go keeps the process small. A node
// has a runner (noderunner.go): its credential (credential.go) lasts, and whenever it
// leads, by an election or without one, it is built anew out of its parts by wire.go,
// the only place that knows all of them, and run by node.go until its lease or the
// process ends.
//
// engine.go assembles a node's engine with what feeds it and what it writes to, for
// wire.go and for remove_takeover.go, which ends the pods of a node that is removed.
//
// What is not a process of its own stands in packages: doctor, explain, the table of
// kinds of backend (backends), the health port (health), the access to the API server (access).
//
// It is large because it is all commands and the wiring of all parts, which nothing can import.
package main
