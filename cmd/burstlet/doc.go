// Command burstlet is a virtual kubelet: it registers a node in a Kubernetes
// cluster and runs the pods bound to it on a remote.
//
// main.go owns the process: signals and the exit code. root.go is the command
// tree, run.go and version.go are its commands, flags.go turns the settings of
// package config into flags, and logging.go sets up the log.
//
// process.go runs the nodes of the process side by side and starts again what
// failed; health.go tells probes how they are. A node is a member (member.go): its
// credential (access.go) lasts, and whenever it leads, by an election or without
// one, it is built anew out of its parts by wire.go, the only place that knows all
// of them, and run by node.go until its lease or the process ends.
package main
