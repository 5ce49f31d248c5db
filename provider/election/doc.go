// Package election lets several processes stand by for one node: at any time one
// leads, which is to say that it holds a Lease.
//
// The election is client-go's; what this package adds is the [gate.Gate] that
// every change must pass (lock.go), and the order in which a term ends
// (election.go):
//
//   - Out of reach: the lease cannot be renewed, and the remote tells leaders apart. The
//     term goes on (remote.go), with the gate closed towards the API, until the API
//     server answers or the remote names another leader.
//   - Lost: the gate closes first, then what leads is stopped. The process does
//     not end, it waits to lead again, with a gate and parts that are new.
//   - Given up (the process is told to end): what leads ends first, its last
//     writes included, while the lease is still renewed. Then the gate closes and
//     the lease is released, so that the next leader need not wait for its end.
//
// # Why no two lead at once
//
// A renewal moves the gate to the moment at which it was asked for plus seven
// eighths of the lease's duration. Whoever stands by sees the renewal later than
// it was asked for and waits the whole duration by its own clock. So clocks need
// not agree: it is enough that they run alike, to within an eighth. A process that
// was frozen and wakes finds its gate closed by the clock, before it knows anything
// of an election. What cannot be recalled is a request that had passed the gate
// before the freeze and was not written to its connection; its names (UID, attempt,
// resourceVersion or UID precondition) make it collide instead of double.
//
// A Lease that somebody deleted knows nothing of its holder, who has up to seven eighths
// of its duration left. So whoever makes the Lease of a node that is there already waits
// for a whole duration before it leads.
//
// A term that goes on without its lease leans on the remote instead (package
// backend/fence): a leader takes the node there while its lease is good, and from then
// on the remote refuses what earlier ones ask for.
package election
