// Package cri runs pods as containers on a Linux host, through a container
// runtime that speaks CRI v1 (containerd 1.6 or newer).
//
// [New] assembles a [backend.Backend] whose parts share one remote:
//
//	transport   the way to the runtime, a package of its own
//	host        what CRI cannot do: directories, links, logs, connections to pods
//	guard       asks before each change of the host, and tells it who leads
//	stopper     StopContainer calls held open until the container has ended
//	details     what a listing does not say, fetched once per change
//	throttle    slows streams while pods start or go
//
// pods, containers, logs, dialer and node are thin: each turns one part of the contract into
// CRI calls and host operations, as do packages events, images, sessions and stats.
// What these ask for is package convert's to say.
//
// The runtime is the database. A sandbox carries the kubelet's labels, its
// metadata the attempt; a container's metadata carries the restart count and its
// annotations the spec's hash. All of them carry this node's label, and every
// listing selects on it: another kubelet's objects are never seen, so never
// touched. containerd reserves the name made of namespace, name, UID and
// attempt, so that a call repeated after a lost reply collides; Launch and Start
// then adopt what the first call made.
//
// It is large because its parts share one remote, with what is known of its sandboxes and
// containers.
package cri
