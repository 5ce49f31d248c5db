// Package explain is "burstlet explain": it says what would become of pods on nodes of
// a configuration, without asking a cluster or a remote.
//
//	read.go        pods and templates of workloads out of files
//	explain.go     a pod on a node: refused or accepted, field by field
//	fields.go      the refusals, and the fields that a pod sets
//	launch.go      the launch of a pod, with stand-ins for what is not known here
//	print.go       for people; print_host.go what a pod becomes on a container host
//
// fields_test.go writes docs/fields.md out of what the engine and the backends answer.
//
// The package may import the configuration, backends and what they preview, and the
// pure parts of the engine: admit, resolve, volumes.
package explain
