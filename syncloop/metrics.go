package syncloop

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/burstlet/burstlet/syncloop/podsource"
)

// Metrics are the engine's, under the kubelet's names where it has one.
type Metrics struct {
	relist  prometheus.Histogram
	pods    prometheus.Gauge
	changes *prometheus.CounterVec
}

// NewMetrics registers the engine's metrics; with nil they are kept but shown
// nowhere.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		relist: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kubelet_pleg_relist_duration_seconds", Help: "Duration of complete listings of the remote.",
			Buckets: prometheus.DefBuckets,
		}),
		pods: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kubelet_active_pods", Help: "Pods that the node works on.",
		}),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "burstlet_pod_changes_total", Help: "Pod changes from the API by kind.",
		}, []string{"op"}),
	}
	if r != nil {
		r.MustRegister(m.relist, m.pods, m.changes)
	}
	return m
}

func (m *Metrics) relisted(d time.Duration) { m.relist.Observe(d.Seconds()) }
func (m *Metrics) running(n int)            { m.pods.Set(float64(n)) }
func (m *Metrics) change(op podsource.Op)   { m.changes.WithLabelValues(op.String()).Inc() }
