package health

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// scrape returns the lines of the health port's metrics that begin so.
func scrape(t *testing.T, h *Port, prefix string) []string {
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

func twoNodes() *Port {
	h := New("a", "b")
	h.Metrics = NodesHandler(ProcessMetrics("v1"), h.Nodes)
	return h
}

func TestHealthPortHasNoMetricsUnlessAsked(t *testing.T) {
	w := httptest.NewRecorder()
	New().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

func TestMetricsOfAllNodesOfTheProcessHaveTheirNames(t *testing.T) {
	h := twoNodes()
	for i, n := range h.Nodes {
		r := prometheus.NewRegistry()
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "x_total"}, []string{"a", "z"})
		named := prometheus.NewGauge(prometheus.GaugeOpts{Name: "y", ConstLabels: prometheus.Labels{"node": n.name}})
		r.MustRegister(c, named)
		c.WithLabelValues("1", "2").Add(float64(i + 1))
		n.Show(r)
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
	h.Nodes[0].Show(nil)
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
	a := h.Nodes[0]
	a.Began()
	a.Set(Running, nil)
	a.Set(Failed, errors.New("x"))
	a.Began()
	a.Set(Running, nil)
	h.Nodes[1].Set(Standby, nil)
	a.GoesOnWithoutLease(true)
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
