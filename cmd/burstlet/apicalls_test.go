package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/burstlet/burstlet/cmd/burstlet/health"
)

func TestRequestsToTheAPIServerAreCounted(t *testing.T) {
	calls := newAPICalls()
	answers := calls.count(roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPatch {
			return nil, errors.New("no way")
		}
		return &http.Response{StatusCode: http.StatusForbidden, Body: io.NopCloser(strings.NewReader(""))}, nil
	}))
	for _, method := range []string{http.MethodGet, http.MethodPatch} {
		resp, err := answers.RoundTrip(httptest.NewRequest(method, "https://192.0.2.1:6443/api/v1/pods", nil))
		if err == nil {
			resp.Body.Close()
		}
	}
	h := health.New("a")
	h.Metrics = health.NodesHandler(prometheus.NewRegistry(), h.Nodes)
	r := prometheus.NewRegistry()
	r.MustRegister(calls.requests)
	h.Nodes[0].Show(r)
	want := []string{
		`rest_client_requests_total{code="403",host="192.0.2.1:6443",method="GET",node="a"} 1`,
		`rest_client_requests_total{code="<error>",host="192.0.2.1:6443",method="PATCH",node="a"} 1`,
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, line := range want {
		if !strings.Contains(w.Body.String(), line+"\n") {
			t.Errorf("%s is missing in\n%s", line, w.Body)
		}
	}
}
