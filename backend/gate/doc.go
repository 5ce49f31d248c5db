// Package gate lets changes through only while this process holds its nodes.
// Without leader election it is always open; with it, a process that lost its lease, or
// slept past it, changes nothing any more.
//
// It is closed by default: [Gate.Wrap] refuses every call of a backend of which the
// table of package intercept does not say that it only reads, and what Run changes by
// itself asks it too. [Gate.Transport] does the same for writes to the API.
//
// A remote that refuses the changes of a leader that has a successor lets a term outlive
// the API server (remote.go): while the lease cannot be renewed, the gate stays open
// towards that remote for as long as it confirms the term, and closes for ever when it
// names another leader. Towards the API it is closed meanwhile.
//
// It imports the contract and the table of its calls.
package gate
