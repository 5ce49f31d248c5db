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
//	POST /checkpoint/{namespace}/{pod}/{container}     checkpoint.go
//	GET /logs/{path}, /logs/?query=                    systemlogs.go
//	GET /flagz, /statusz                               zpages.go
//
// A request passes, in this order: TLS (certs.go), the request metrics
// (metrics.go), authentication by client certificate or TokenReview and
// authorization by SubjectAccessReview (auth.go, with the kubelet's attributes
// in attributes.go), and then its handler. What callers have under way is
// bounded before and after they are known (bounds.go), and what reaches into a pod
// leaves an audit trail (audit.go). Errors of the engine
// become HTTP statuses in one place, errors.go.
//
// The CA of client certificates is a file, or what the cluster publishes in
// ConfigMap kube-system/extension-apiserver-authentication (clientca.go).
//
// /healthz reports whether the engine's sync loop runs and listings of the remote
// succeed, as the kubelet's reports its sync loop and PLEG. It is unhealthy while the
// remote cannot be reached, which restarting this process does not mend: use
// /healthz/ping as the liveness probe.
//
// It is large because it is a kubelet's whole HTTP API: its many small handlers share
// authentication, bounds, the audit trail and errors.
package kubeletapi
