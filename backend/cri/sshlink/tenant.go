package sshlink

import (
	"slices"
	"strings"

	"github.com/burstlet/burstlet/backend"
)

// Tenant is a node as one of those of its host.
type Tenant struct {
	// Node is its identity; empty where that is not known.
	Node string
	// Bounded is true where it is told what part of the host it offers.
	Bounded bool
}

// Others are those of the nodes of a host that are not this one; none where it cannot be
// told from the only one.
func (t Tenant) Others(nodes []string) []string {
	if t.Node == "" && len(nodes) < 2 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(node string) bool { return node == t.Node })
}

// PartAdvice is what to do where nodes offer what their host has more than once.
const PartAdvice = "set node.capacity.cpu and node.capacity.memory of each to its part of the host"

// neighbours says whose pods are on the host too, of whatever process or cluster. A node
// that offers all of such a host is refused: schedulers would give it away twice.
func (t Tenant) neighbours(nodes []string) []backend.Finding {
	const what = "other nodes"
	others := t.Others(nodes)
	if len(others) == 0 {
		return nil
	}
	have := "pods of " + strings.Join(others, ", ") + " are on this host too"
	if !t.Bounded {
		return []backend.Finding{backend.Bad(what, have+", and this node offers all that it has", PartAdvice)}
	}
	return []backend.Finding{backend.Good(what, have+"; the parts of all must not add up to more than it has")}
}
