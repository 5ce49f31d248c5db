package kubeletapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the kubelet's own of its HTTP server.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
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
	for _, c := range []prometheus.Collector{m.requests, m.duration} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of the kubelet API: %w", err)
		}
	}
	return m, nil
}

// buckets are the values that the label path can have besides "other".
var buckets = []string{"containerLogs", "healthz", "metrics", "pods", "runningpods"}

// bucket is the label of a path: its first part, if the server knows it.
func bucket(path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if slices.Contains(buckets, first) {
		return first
	}
	return "other"
}

// wrap counts requests and times those that are not long-running.
func (m *metrics) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := bucket(r.URL.Path)
		method := r.Method
		if _, known := verbs[method]; !known {
			method = "other"
		}
		long := "false"
		if path == "containerLogs" && flag(r.URL.Query(), "follow") {
			long = "true"
		}
		labels := []string{method, path, "readwrite", long}
		m.requests.WithLabelValues(labels...).Inc()
		start := time.Now()
		defer func() { m.duration.WithLabelValues(labels...).Observe(time.Since(start).Seconds()) }()
		next.ServeHTTP(w, r)
	})
}
