package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

// scrape returns the lines of the health port's metrics that begin so.
func scrape(t *testing.T, h *health, prefix string) []string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	var lines []string
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, prefix) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

func twoNodes() *health {
	var configs [2]config.Configuration
	configs[0].Node.Name, configs[1].Node.Name = "a", "b"
	h := newHealth(configs[:])
	h.metrics = nodesHandler(processMetrics(), h.nodes)
	return h
}

func TestHealthPortHasNoMetricsUnlessAsked(t *testing.T) {
	w := httptest.NewRecorder()
	newHealth(nil).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

func TestMetricsOfAllNodesOfTheProcessHaveTheirNames(t *testing.T) {
	h := twoNodes()
	for i, n := range h.nodes {
		r := prometheus.NewRegistry()
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "x_total"}, []string{"a", "z"})
		named := prometheus.NewGauge(prometheus.GaugeOpts{Name: "y", ConstLabels: prometheus.Labels{"node": n.name}})
		r.MustRegister(c, named)
		c.WithLabelValues("1", "2").Add(float64(i + 1))
		n.show(r)
	}
	for range 2 { // the labels do not pile up
		if got, want := scrape(t, h, "x_total"), []string{
			`x_total{a="1",node="a",z="2"} 1`, `x_total{a="1",node="b",z="2"} 2`,
		}; !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
		if got, want := scrape(t, h, "y{"), []string{`y{node="a"} 0`, `y{node="b"} 0`}; !slices.Equal(got, want) {
			t.Errorf("a label node of its own stays: %q", got)
		}
	}
	h.nodes[0].show(nil)
	if got := scrape(t, h, "x_total"); len(got) != 1 {
		t.Errorf("a node that stopped shows %q", got)
	}
	for _, name := range []string{"go_goroutines", "process_resident_memory_bytes", "burstlet_build_info"} {
		if got := scrape(t, h, name); len(got) != 1 {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestStatesTermsAndFailuresOfNodes(t *testing.T) {
	h := twoNodes()
	a := h.nodes[0]
	a.began()
	a.set(stateRunning, nil)
	a.set(stateFailed, errors.New("x"))
	a.began()
	a.set(stateRunning, nil)
	h.nodes[1].set(stateStandby, nil)
	a.goesOnWithoutLease(true)
	want := []string{
		`burstlet_node_failures_total{node="a"} 1`, `burstlet_node_failures_total{node="b"} 0`,
		`burstlet_node_state{node="a",state="failed"} 0`, `burstlet_node_state{node="a",state="running"} 1`,
		`burstlet_node_state{node="a",state="standby"} 0`, `burstlet_node_state{node="a",state="starting"} 0`,
		`burstlet_node_state{node="b",state="failed"} 0`, `burstlet_node_state{node="b",state="running"} 0`,
		`burstlet_node_state{node="b",state="standby"} 1`, `burstlet_node_state{node="b",state="starting"} 0`,
		`burstlet_node_terms_total{node="a"} 2`, `burstlet_node_terms_total{node="b"} 0`,
		`burstlet_node_without_lease{node="a"} 1`, `burstlet_node_without_lease{node="b"} 0`,
	}
	if got := scrape(t, h, "burstlet_node_"); !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
}

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
	h := twoNodes()
	r := prometheus.NewRegistry()
	r.MustRegister(calls.requests)
	h.nodes[0].show(r)
	want := []string{
		`rest_client_requests_total{code="403",host="192.0.2.1:6443",method="GET",node="a"} 1`,
		`rest_client_requests_total{code="<error>",host="192.0.2.1:6443",method="PATCH",node="a"} 1`,
	}
	if got := scrape(t, h, "rest_client_requests_total"); !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
}
