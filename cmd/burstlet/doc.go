// Command burstlet is a virtual kubelet: it registers a node in a Kubernetes
// cluster and runs the pods bound to it on a remote.
//
// main.go owns the process: signals and the exit code. root.go is the command
// tree, run.go and version.go are its commands, flags.go turns the settings of
// package config into flags, logging.go sets up the log, and wire.go builds the
// node out of its parts: the only place that knows all of them.
package main
