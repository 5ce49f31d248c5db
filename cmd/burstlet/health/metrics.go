package health

import (
	"cmp"
	"net/http"
	"regexp"
	"runtime"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// labelNode is the label that tells nodes of a process apart.
const labelNode = "node"

// ProcessMetrics are those of this process, whatever its nodes do.
func ProcessMetrics(version string) prometheus.Gatherer {
	registry := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "burstlet_build_info",
		Help:        "A metric with a constant '1' value labeled by version and the Go version that it was built with.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	build.Set(1)
	// Where memory has a limit, only what of the heap lives tells of a leak: the rest grows up to the limit.
	live := collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)}
	registry.MustRegister(
		build, collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(live)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return registry
}

// NodesHandler serves the metrics of the process, the states of its nodes, and those
// of every node that it works as.
func NodesHandler(process prometheus.Gatherer, nodes []*Node) http.Handler {
	states := prometheus.NewRegistry()
	states.MustRegister(nodeStates(nodes))
	all := prometheus.Gatherers{process, states}
	for _, n := range nodes {
		all = append(all, prometheus.GathererFunc(n.gather))
	}
	return promhttp.HandlerFor(all, promhttp.HandlerOpts{})
}

// gather returns the node's metrics, each with its name as a label; none while it does
// not work.
func (s *Node) gather() ([]*dto.MetricFamily, error) {
	s.mu.Lock()
	metrics := s.metrics
	s.mu.Unlock()
	if metrics == nil {
		return nil, nil
	}
	families, err := metrics.Gather()
	for _, f := range families {
		for _, m := range f.Metric {
			m.Label = withNode(m.Label, s.name)
		}
	}
	return families, err
}

// withNode returns labels with the node's name, in order. They are a copy: a metric's
// own are kept by who made it.
func withNode(labels []*dto.LabelPair, node string) []*dto.LabelPair {
	name := labelNode
	at, found := slices.BinarySearchFunc(labels, name, func(l *dto.LabelPair, name string) int {
		return cmp.Compare(l.GetName(), name)
	})
	if found {
		return labels
	}
	return slices.Insert(slices.Clone(labels), at, &dto.LabelPair{Name: &name, Value: &node})
}

var (
	stateDesc = prometheus.NewDesc("burstlet_node_state",
		"1 for what this process does for a node now: starting, running, standby (another process has the lease) or "+
			"failed; else 0.",
		[]string{labelNode, "state"}, nil)
	termsDesc = prometheus.NewDesc("burstlet_node_terms_total",
		"Cumulative number of times that this process began to work as a node.", []string{labelNode}, nil)
	failuresDesc = prometheus.NewDesc("burstlet_node_failures_total",
		"Cumulative number of times that a node failed and was to be started again.", []string{labelNode}, nil)
	withoutLeaseDesc = prometheus.NewDesc("burstlet_node_without_lease",
		"1 while this process goes on as a node although it cannot renew the lease of the node's leader election; else 0.",
		[]string{labelNode}, nil)
)

// nodeStates shows the states when somebody asks.
type nodeStates []*Node

// Describe implements [prometheus.Collector].
func (n nodeStates) Describe(ch chan<- *prometheus.Desc) {
	ch <- stateDesc
	ch <- termsDesc
	ch <- failuresDesc
	ch <- withoutLeaseDesc
}

// Collect implements [prometheus.Collector].
func (n nodeStates) Collect(ch chan<- prometheus.Metric) {
	for _, s := range n {
		s.mu.Lock()
		state, terms, failures, without := s.state, s.terms, s.failures, 0.0
		if s.withoutLease {
			without = 1
		}
		s.mu.Unlock()
		for _, known := range []string{Starting, Running, Standby, Failed} {
			value := 0.0
			if state == known {
				value = 1
			}
			ch <- prometheus.MustNewConstMetric(stateDesc, prometheus.GaugeValue, value, s.name, known)
		}
		ch <- prometheus.MustNewConstMetric(termsDesc, prometheus.CounterValue, float64(terms), s.name)
		ch <- prometheus.MustNewConstMetric(failuresDesc, prometheus.CounterValue, float64(failures), s.name)
		ch <- prometheus.MustNewConstMetric(withoutLeaseDesc, prometheus.GaugeValue, without, s.name)
	}
}
