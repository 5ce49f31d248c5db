package metered

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics count the calls of one backend or of several.
type Metrics struct {
	operations *prometheus.CounterVec
	errors     *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	classes    *prometheus.CounterVec
	storage    *prometheus.HistogramVec
	cgroups    *prometheus.HistogramVec
	info       *prometheus.GaugeVec
	costs      *costs
	transports *transports
}

// NewMetrics registers the metrics; with nil they are kept but shown nowhere.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	labels := []string{"operation_type"}
	m := &Metrics{
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_runtime_operations_total",
			Help: "Cumulative number of runtime operations by operation type.",
		}, labels),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_runtime_operations_errors_total",
			Help: "Cumulative number of runtime operation errors by operation type.",
		}, labels),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "kubelet_runtime_operations_duration_seconds",
			Help:    "Duration in seconds of runtime operations. Broken down by operation type.",
			Buckets: prometheus.ExponentialBuckets(.005, 2.5, 14),
		}, labels),
		classes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "burstlet_backend_errors_total",
			Help: "Cumulative number of runtime operation errors by operation type and class of the error.",
		}, []string{"operation_type", "class"}),
		storage: newStorage(),
		cgroups: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "kubelet_cgroup_manager_duration_seconds",
			Help:    "Duration in seconds for cgroup manager operations. Broken down by method.",
			Buckets: prometheus.DefBuckets,
		}, labels),
		info: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "burstlet_backend_info",
			Help: "A metric with a constant '1' value labeled by the kind of the backend.",
		}, []string{"backend"}),
		costs:      &costs{},
		transports: &transports{},
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.operations, m.errors, m.duration, m.classes, m.storage, m.cgroups, m.info, m.costs, m.transports,
	} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of the backend: %w", err)
		}
	}
	return m, nil
}
