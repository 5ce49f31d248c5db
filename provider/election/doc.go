// Package election lets several processes stand by for one node: at any time one
// leads, which is to say that it holds a Lease.
//
// The election is client-go's; what this package adds is the [gate.Gate] that
// every change must pass (lock.go), one Lease for several nodes (lease.go), and the
// order in which a term ends (election.go):
//
//   - Out of reach: the lease cannot be renewed, and the remote tells leaders apart. The
//     term goes on (remote.go), with the gate closed towards the API, until the API
//     server answers or the remote names another leader.
//   - Lost: the gate closes first, then what leads is stopped. The process does
//     not end, it waits to lead again, with a gate and parts that are new.
//   - Given up (the process is told to end): what leads ends first, its last
//     writes included, while the lease is still renewed. Then the gate closes and
//     the lease is released, so that the next leader need not wait for its end.
//     Where several nodes lead by one Lease, the last to end releases it.
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
// # One Lease for several nodes
//
// Each node has an [Elector], terms and gates of its own; what a process' electors share is the
// [Lease], which they use in turn. What one asked of the API server is the answer for all that
// want it within three quarters of a period, or waited meanwhile: so a process writes or reads
// once a period, whatever the number of its nodes. A renewal that is shared opens each gate from
// the moment at which it was asked for. Who stands by and is told something old waits longer.
//
// Three rules make that as safe as a Lease for each:
//
//   - A write passes if this process is the holder, or if the node that decided on it has seen
//     the Lease's present version. Else what another node has read since would make a write pass
//     that takes the Lease from a new holder.
//   - A term ends if its process was not the holder all the time, although it is again: another
//     node may have the Lease back before this one looks. The Lease counts its holdings, and a
//     term belongs to one.
//   - Nodes join and leave in turn, the last to leave releases, and with the release what was
//     renewed before is forgotten.
//
// A term that goes on without its lease leans on the remote instead (package
// backend/fence): a leader takes the node there while its lease is good, and from then
// on the remote refuses what earlier ones ask for.
package election
