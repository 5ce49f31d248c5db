// Package access finds a node's access to the API server of its cluster, and what
// the node is called on its remote.
//
// "burstlet run", "remove-nodes", "approve-certificates" and "doctor" find them here,
// so that doctor judges what the others use. The package may import the configuration
// and the Kubernetes client, and nothing else of the project.
package access
