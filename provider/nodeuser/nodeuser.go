// Package nodeuser names the user that the API server takes for a node: the Node authorizer,
// NodeRestriction and the signers of kubelets' certificates know nodes by it.
package nodeuser

import "k8s.io/apiserver/pkg/authentication/user"

const (
	// Prefix begins the user name of a node, and the common name of its certificates.
	Prefix = "system:node:"
	// Group is the group of all nodes, and the organization in their certificates.
	Group = user.NodesGroup
)

// Name returns the user name of a node.
func Name(node string) string { return Prefix + node }
