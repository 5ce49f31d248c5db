// Package approver approves the requests of burstlet's nodes for serving
// certificates (signer kubernetes.io/kubelet-serving), which Kubernetes leaves to
// somebody who knows the nodes' addresses.
//
//	policy.go    which request is approved: a pure function
//	request.go   what a request asks for
//	approver.go  the loop: informers, one goroutine that decides and writes
//	metrics.go   what became of requests
//
// A node may write its own Node's status, so the addresses there prove nothing. A
// certificate is approved only for addresses that somebody else vouches for: an
// administrator by their network, or Kubernetes by the pods that burstlet runs in.
// And only for the Node's own name, which nobody can change.
//
// With groups of bootstrap tokens it also approves nodes' first client certificates (signer
// kubernetes.io/kube-apiserver-client-kubelet), for the nodes that it knows by name.
// Kubernetes could do that by itself, but for every name that a node may have: who holds a
// token could become any node.
//
// Nothing is denied: what is not approved waits for others, who may know better,
// and is forgotten by Kubernetes after a day.
package approver
