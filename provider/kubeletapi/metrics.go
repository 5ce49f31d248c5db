package kubeletapi

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the kubelet's own of its HTTP server.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer, node string) (*metrics, error) {
	labels := []string{"method", "path", "server_type", "long_running"}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_http_requests_total",
			Help: "Number of the http requests received since the server started",
		}, labels),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "kubelet_http_requests_duration_seconds",
			Help:    "Duration in seconds to serve http requests",
			Buckets: prometheus.DefBuckets,
		}, labels),
	}
	if reg == nil {
		return m, nil
	}
	name := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kubelet_node_name", Help: "The node's name. The count is always 1.",
		ConstLabels: prometheus.Labels{"node": node},
	})
	name.Set(1)
	for _, c := range []prometheus.Collector{m.requests, m.duration, name} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of the kubelet API: %w", err)
		}
	}
	return m, nil
}

// buckets are the values that the label path can have besides "other".
var buckets = []string{
	"attach", "checkpoint", "configz", "containerLogs", "exec", "flagz", "healthz", "logs", "metrics", "metrics/cadvisor",
	"metrics/probes", "metrics/resource", "pods", "portForward", "run", "runningpods", "stats", "statusz",
}

// bucket is the label of a path: all of it or its first part, as the server knows
// it.
func bucket(path string) string {
	path = strings.TrimPrefix(path, "/")
	if slices.Contains(buckets, path) {
		return path
	}
	first, _, _ := strings.Cut(path, "/")
	if slices.Contains(buckets, first) {
		return first
	}
	return "other"
}

// longRunning is true for a request that lasts as long as its client wants.
func longRunning(bucket string, r *http.Request) bool {
	switch bucket {
	case "attach", "exec", "portForward":
		return true
	case "containerLogs":
		return flag(r.URL.Query(), "follow")
	}
	return false
}

// wrap counts requests and times them. The writer stays net/http's own, so that
// connections can be taken over.
func (m *metrics) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := bucket(r.URL.Path)
		method := r.Method
		if _, known := verbs[method]; !known {
			method = "other"
		}
		long := strconv.FormatBool(longRunning(path, r))
		labels := []string{method, path, "readwrite", long}
		m.requests.WithLabelValues(labels...).Inc()
		start := time.Now()
		defer func() { m.duration.WithLabelValues(labels...).Observe(time.Since(start).Seconds()) }()
		next.ServeHTTP(w, r)
	})
}
