// Package access finds a node's access to the API server of its cluster, and what
// the node is called on its remote.
//
// "burstlet run", "remove-nodes", "approve-certificates" and "doctor" find them here,
// so that doctor judges what the others use. The package may import the configuration,
// the Kubernetes client and, for how a Node is marked, package provider.
package access
