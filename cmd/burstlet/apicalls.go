package main

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// apiCalls count the requests to the API server, under the names that Kubernetes'
// components have for theirs (k8s.io/component-base/metrics/prometheus/restclient).
type apiCalls struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newAPICalls() *apiCalls {
	return &apiCalls{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rest_client_requests_total",
			Help: "Number of HTTP requests, partitioned by status code, method, and host.",
		}, []string{"code", "method", "host"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "rest_client_request_duration_seconds",
			Help:    "Request latency in seconds, until the answer begins. Broken down by verb, and host.",
			Buckets: []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0},
		}, []string{"verb", "host"}),
	}
}

// count wraps a client's transport.
func (c *apiCalls) count(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		began := time.Now()
		resp, err := next.RoundTrip(r)
		code := "<error>"
		if err == nil {
			code = strconv.Itoa(resp.StatusCode)
		}
		c.requests.WithLabelValues(code, r.Method, r.URL.Host).Inc()
		c.duration.WithLabelValues(r.Method, r.URL.Host).Observe(time.Since(began).Seconds())
		return resp, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls f.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
