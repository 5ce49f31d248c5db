// Package streams opens what users ask of the containers of a node: commands, attachments,
// connections to ports and checkpoints (streams.go), logs of containers (logs.go) and of
// the host (system_log.go). A [Server] is what an engine serves them with.
//
// It owns which attempt of a container is meant, and the kubelet's words for one that
// does not run, or has no log. What is known of a pod it is lent when somebody asks.
//
// It may import package plan, for the order of attempts, and the contract.
package streams
