// Package doctor checks all that a node on ECS needs, for "burstlet doctor", by calls
// that only read. permissions.go is what the controller's policy grants, each tried or
// simulated by IAM (tries.go); place.go is roles, network and quotas; query.go asks
// services that nothing else needs, for which no client of the SDK's is linked.
//
// It imports clients, and for names and texts awscall, identity, payload and taskdef.
package doctor
