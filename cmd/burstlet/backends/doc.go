// Package backends is the table of the kinds of backend: for each, how its part of the
// configuration is read, and how it is made, diagnosed and explained. No other package
// of the command distinguishes kinds: it gets one from [Of].
//
//	kind.go   the table, and what a kind is
//	cri.go    containers on a host, here or over SSH
//	ecs.go    tasks on ECS
//	sim.go    the simulation, in this process or behind a socket
//
// The package may import the backends and package config.
package backends
