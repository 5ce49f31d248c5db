package prober

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
)

// Metrics are the kubelet's own of probes, which it serves at /metrics/probes.
// They have series of each pod, which end with it (Manager.Forget).
type Metrics struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// series names the metrics of one probe of one pod over all restarts of its
// container.
type series struct {
	container string
	kind      Kind
}

// NewMetrics registers the metrics of probes.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prober_probe_total",
			Help: "Cumulative number of a liveness, readiness or startup probe for a container by result.",
		}, []string{"probe_type", "result", "container", "pod", "namespace", "pod_uid"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "prober_probe_duration_seconds", Help: "Duration in seconds for a probe response.",
			Buckets: prometheus.DefBuckets,
		}, []string{"probe_type", "container", "pod", "namespace"}),
	}
	r.MustRegister(m.total, m.duration)
	return m
}

// The values of the label result.
const (
	successful = "successful"
	failed     = "failed"
)

// observe counts a probe that came to a finding; as the kubelet's, the duration is
// that of successes.
func (p *podProbes) observe(m *Metrics, t Target, found Outcome, took time.Duration) {
	if m == nil {
		return
	}
	if p.series == nil {
		p.series = map[series]struct{}{}
	}
	p.series[series{t.Container, t.Kind}] = struct{}{}
	result := failed
	if found == Success {
		result = successful
		m.duration.WithLabelValues(string(t.Kind), t.Container, p.pod.Name, p.pod.Namespace).Observe(took.Seconds())
	}
	m.total.WithLabelValues(string(t.Kind), result, t.Container, p.pod.Name, p.pod.Namespace, string(p.pod.UID)).Inc()
}

// forget removes the series of a pod that is gone.
func (m *Metrics) forget(pod *corev1.Pod, s series) {
	for _, result := range [...]string{successful, failed} {
		m.total.DeleteLabelValues(string(s.kind), result, s.container, pod.Name, pod.Namespace, string(pod.UID))
	}
	m.duration.DeleteLabelValues(string(s.kind), s.container, pod.Name, pod.Namespace)
}
