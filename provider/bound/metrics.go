package bound

import "github.com/prometheus/client_golang/prometheus"

// Bound is a bound that metrics tell of.
type Bound interface{ reading() reading }

// reading is a bound at a moment.
type reading struct {
	kind                string
	most, used, refused int64
}

// Metrics shows the bounds of a server when somebody asks.
type Metrics struct {
	used, most, refused *prometheus.Desc
	bounds              []Bound
}

// NewMetrics returns the metrics of a server's bounds.
func NewMetrics(server string, bounds ...Bound) *Metrics {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"kind"}, prometheus.Labels{"server": server})
	}
	return &Metrics{
		used: desc("burstlet_http_in_flight", "What clients of an HTTP server have under way now, by kind."),
		most: desc(
			"burstlet_http_limit", "How much of it may be under way; of authentications and authorizations, for each client.",
		),
		refused: desc("burstlet_http_refused_total", "Cumulative number of times that there was too much of it: "+
			"a request was refused, or for a new connection an idle one or itself was closed."),
		bounds: bounds,
	}
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.used
	ch <- m.most
	ch <- m.refused
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, b := range m.bounds {
		r := b.reading()
		ch <- prometheus.MustNewConstMetric(m.used, prometheus.GaugeValue, float64(r.used), r.kind)
		ch <- prometheus.MustNewConstMetric(m.most, prometheus.GaugeValue, float64(r.most), r.kind)
		ch <- prometheus.MustNewConstMetric(m.refused, prometheus.CounterValue, float64(r.refused), r.kind)
	}
}
