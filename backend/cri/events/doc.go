// Package events hints at changes of this node's pods on their host: a [Follower] reads
// CRI's own events (events.go), or those of containerd where the runtime has none that
// reach everybody (containerd.go).
//
// It owns which stream is followed, how an event's pod is found, and the wait until CRI
// knows of an end that containerd has told of. What is known of ids it is lent as [Known].
//
// It may import packages convert, features, pause and transport, and the contract.
package events
