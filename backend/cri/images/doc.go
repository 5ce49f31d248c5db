// Package images has the images of a host's container runtime: a [Puller] finds and pulls
// them (puller.go), a [Store] lists and removes what nobody uses (store.go), and [Records]
// keep what the kubelet remembers of pulls in a file of the node's own (pull_records.go).
//
// It owns the kubelet's words for a registry's errors, and remembers whom images run as.
// Which image is wanted, with which login, and which is garbage, is the engine's to say.
//
// It may import packages convert, features, host, imageref, stats and transport, and the
// contract.
package images
