// Package monitoring proves what deploy/prometheus and deploy/grafana promise: a real
// Prometheus scrapes real burstlet processes, whose nodes have every kind of remote,
// with the shipped configuration (but for the discovery, which Debian builds without
// Kubernetes), under a real control plane; then every query of every dashboard, and what
// every alert compares, returns data, and so do kube-prometheus' queries about containers,
// asked of a node over SSH, and about claims, asked of made ones. Failures are provoked so
// that there is something to count.
// Beside that, each alert is shown to fire when it must and not to fire otherwise
// (promtool), and the files are checked for what Grafana expects of them.
package monitoring
