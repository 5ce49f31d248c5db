// Package identity gives a node its credentials and keeps them valid, as a
// kubelet does: a client certificate by TLS bootstrap ([Client]) and a serving
// certificate by CertificateSigningRequest ([Serving]).
//
// When to request, and the requests themselves, are client-go's certificate
// manager: a new key (ECDSA P-256) and a new certificate at 70 to 90 % of the
// life of the one in use, again with backoff when a request is denied, fails or
// is deleted.
//
// The parts: request.go tells people what a request waits for; store.go keeps a
// certificate in a file; transport.go moves calls to a new certificate without
// failing one; klog.go brings what the manager logs into our log.
package identity
