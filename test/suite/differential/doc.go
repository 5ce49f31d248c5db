// Package differential gives the same pods to a real kubelet and to burstlet over SSH, in
// one cluster, each on a host of its own with the same containerd, and compares what the
// API shows of them field by field: the status and the Events, in their order where it
// counts. What must differ (names of nodes, addresses, times, identifiers) is made equal
// first.
//
// A pod is of a kind: how it is made, of numbers that a seed gives; the state at which it
// is compared; and what is done to it before that. Both sides have a while to agree, for
// their writes come at different moments.
//
// The differences that remain stand in docs/behaviours.md with their reason. One that
// does not stand there fails the test, and so does an entry that no pod shows any more.
package differential
