// Command demo shows burstlet at work on this machine, alone: a real control
// plane, a containerd apart from the machine's own, a virtual node, and on it a
// Deployment and a Job of real containers.
//
//	go run ./test/cmd/demo          # stays up until Ctrl-C
//	ONCE=1 go run ./test/cmd/demo   # ends by itself
//
// It is a test too. What it shows it checks, and it ends with status 1 when
// anything is not as it should be: it then prints the pods, the events and the
// end of burstlet's log, and keeps the logs of all programs.
//
// With --ecs the pods are tasks on an ECS that answers as AWS does and runs them as
// containers. Without root there are no containers: the node then has the simulated
// backend, and with --ecs an ECS that only answers.
//
// With --mine it uses the cluster of kubectl's current context instead of a control
// plane of its own, asks before it makes anything there, and removes all of it.
//
// The parts: main.go knows flags and signals; demo.go is the order of things;
// prepare.go installs and builds what is missing; cluster.go, config.go and ecs.go
// start and stop the programs; mine.go finds the user's cluster, ask.go asks
// for it, and join.go makes and removes what a node needs there; show.go and forward.go
// are what is shown, checks.go what is expected of it, shell.go how commands are run and
// waited for; screen.go knows how all of it looks; diagnose.go tells what went wrong.
// manifests/ holds what is applied, and mine/ what is made in the user's cluster.
//
// It is large because it is a whole program that others can read apart from the tests.
package main
