// Package sim is a remote in memory: it has a clock, addresses, images, logs
// and pods, but runs no process. What a container would do is a [Life], read
// from its command line or given by a script.
//
// A [Remote] is the far side and outlives every engine; [Remote.Backend] is one
// engine's connection to it. A test that restarts its engine takes a new
// Backend of the same Remote and finds everything as it was.
//
// Nothing happens in the background. An attempt of a pod and its containers
// carry a projection: the times, past and future, at which each part starts and
// ends if nobody interferes (project.go). Reads show the part of it that is not
// after now; Stop and Remove change what is still to come and project again.
// Blocking calls and hints wait on timers of package time. Goroutines are started
// only for a connection of Dial or Forward, for what users send to commands, and
// for a program that somebody attached input to, until its container ends. So the
// same code runs under testing/synctest in virtual time and for people in real
// time.
//
// Programs run on paper: what a container writes to its log and to files, where
// it listens and when it ends is worked out from its command line when it is
// made, with the files that it sees then. Commands of Exec run in time, with a
// terminal if wanted. Package shell interprets both. A program that comes to read
// its input stays there on paper, and goes on in time once somebody attaches.
//
// How the files fit: config.go is what a remote is made with; program.go runs command
// lines on paper and exec_live.go in time, both as machines of package shell;
// container_files.go is what a container sees of files, by package filesystem. remote.go
// holds what exists, attempt.go and project.go are one attempt of a pod and its future,
// facts.go and termination_message.go what is shown of it. pods.go, containers.go,
// resize.go, files.go, images.go, store.go, events.go, exec.go, attach*.go, forward.go,
// logs.go, dial.go, stats.go with resource_use.go, and node.go lend the fields of the
// contract; audit.go records what truly happened.
//
// The packages below are parts: filesystem knows volumes of pods, shell, terminal and
// duplex nothing of them. simrpc carries the contract over a socket.
//
// It is large because it lends every field of the contract over one memory: what is in it
// is projected, shown and changed under one lock.
package sim
