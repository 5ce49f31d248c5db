// Package eviction decides which pods a node evicts, and when (kubelet: pkg/kubelet/eviction).
// It is pure: the engine measures, asks, and ends pods.
//
//	signal.go      what a node may run short of
//	limits.go      a pod that is over its own limits on local storage
//	threshold.go   thresholds as an operator writes them, by signal
//	observation.go what the pods' host has left, by signal
//	manager.go     which thresholds are met for longer than their grace, and the conditions
//	               of the node that follow from them
//	rank.go        the order in which pods are evicted for a signal
//	message.go     what users are told
package eviction
