// Package doctor is "burstlet doctor": it diagnoses what nodes need of their clusters
// and of the places where their pods run, and prints a line for each finding.
//
//	doctor.go        one node after the other, and how findings are printed
//	cluster.go       the way to the API server, its version and clock
//	credential.go    whose credential it is, and how long it is valid
//	rights.go        what the credential may do; rights_table.go is what it must
//	audiences.go     the tokens that credential provider plugins are given
//	node.go          the Node and its leases
//	serving.go       the kubelet API: certificate, port, address
//	version.go       which API servers a node may join
//
// It only reads: it makes nothing in the cluster or on the remote, and prints no
// secret. Where pods run, package cmd/burstlet/backends diagnoses by kind. The package may
// import the configuration, access, backends, credentialprovider, and what provider and provider/identity
// show of a node.
package doctor
