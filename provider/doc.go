// Package provider is the only package that imports virtual-kubelet. It registers
// a node, keeps its lease and status, and hands the pods bound to it to the
// engine; package kubeletapi beside it serves the kubelet's HTTP API.
//
// # The node
//
// register.go makes the Node if it is not there, within what NodeRestriction
// allows a node's credential. The framework's NodeController keeps the lease and
// writes the status; nodeclient.go bounds its calls. nodespec.go and
// conditions.go compute, purely, the Node that should stand in the API from the
// configuration and from what is known of the remote; status.go compares that
// with the Node that does stand there, once a second, and pushes what differs.
// Ping never fails: a remote that cannot be reached makes Ready=False while the
// lease is kept.
//
// # The hand-off of pods
//
// The framework's PodController is keyed by namespace/name, deletes pods by
// timers of its own and writes statuses. So it runs, but nothing it reports is
// trusted: each of its calls is a hint that a key changed (handoff.go), its pod client
// cannot write (package inert), its recorder drops, and its queues never give up. Our
// own handler on the same informer (informer.go) gives the same hint for what
// the framework does not see, such as a deletion missed by a broken watch.
// The receiver of the hints reads the informer's store and compares by UID.
//
// # The order of things
//
// Run opens the port of the kubelet API, registers the node and starts its
// lease, syncs the pod informer and then lets the framework hand over pods. At
// the start an API server that cannot be reached, or that refuses the
// credential, is an error that says what to do (errors.go). The node survives later
// outages.
//
// The framework waits with an uninterruptible sleep when its lease cannot be
// ensured; nodeclient.go retries before it gets there, so that Run ends within a
// second of its context.
//
// It is large because all that knows the framework is here: what is used of it, and what takes
// its place. What the Node should say (nodespec.go, conditions.go) could stand alone.
package provider
