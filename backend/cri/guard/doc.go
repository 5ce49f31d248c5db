// Package guard lets nothing change on a host that this process may not change: a [Host]
// asks for its permit once more before each operation that does (host.go), and tells the
// host which [Leader] asks, so that it refuses all others (leader.go).
//
// It owns the list of operations that change something, how the node is taken on its host,
// and the times that operations on cgroups take (cgroup_times.go), which are measured where
// they pass. What the record of a node's leaders means is package fence's.
//
// It may import packages criconfig, fence, host, pause and transport, and the contract.
package guard
