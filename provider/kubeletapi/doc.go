// Package kubeletapi serves the part of the kubelet's HTTP API that this node
// offers, over TLS, with authentication and authorization that cannot be left
// out by accident.
//
//	GET /containerLogs/{namespace}/{pod}/{container}   logs.go
//	GET /pods, /runningpods/                           pods.go
//	GET /healthz, /healthz/{check}                     health.go
//	GET /metrics                                       a given Gatherer
//	GET /metrics/probes                                another
//	GET /stats/summary, /metrics/resource              stats.go and package stats
//	GET /configz                                       configz.go
//
// A request passes, in this order: TLS (certs.go), the request metrics
// (metrics.go), authentication by client certificate or TokenReview and
// authorization by SubjectAccessReview (auth.go, with the kubelet's attributes
// in attributes.go), and then its handler. Errors of the engine become HTTP
// statuses in one place, errors.go.
//
// The CA of client certificates is a file, or what the cluster publishes in
// ConfigMap kube-system/extension-apiserver-authentication (clientca.go).
//
// /healthz tells whether the engine's loop goes round and listings of the remote
// come in, as the kubelet tells of its sync loop and PLEG. It turns unhealthy when the remote is away, which restarting this
// process does not heal: as a liveness probe use /healthz/ping.
package kubeletapi
