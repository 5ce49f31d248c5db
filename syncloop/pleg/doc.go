// Package pleg is the pod lifecycle event generator: the one reader of the
// remote. It lists all pods each period, inspects those that a hint or an
// action of ours touched, compares with what it knew, and keeps the facts.
//
// Every read carries a sequence number taken before it begins. A worker that
// acted asks for facts with [PLEG.Enqueue] and acts again only on a record whose
// number is at least the one it was given: what was read before its action
// cannot fool it (the kubelet's podCache.GetNewerThan).
//
// A read that fails changes nothing: unknown is not gone.
package pleg
