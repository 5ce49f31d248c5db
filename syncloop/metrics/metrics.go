package metrics

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/syncloop/eviction"
	"github.com/burstlet/burstlet/syncloop/imagegc"
	"github.com/burstlet/burstlet/syncloop/plan"
	"github.com/burstlet/burstlet/syncloop/podsource"
)

// Set is all metrics of one engine, under the kubelet's names and with its buckets
// where it has one.
type Set struct {
	relist   prometheus.Histogram
	interval prometheus.Histogram
	pods     prometheus.Gauge
	changes  *prometheus.CounterVec

	podStart    prometheus.Histogram
	workerStart prometheus.Histogram
	worker      *prometheus.HistogramVec

	collected *prometheus.CounterVec
	evictions *prometheus.CounterVec
	statsAge  *prometheus.HistogramVec
	preempts  *prometheus.CounterVec
	rejected  *prometheus.CounterVec
	disk      *prometheus.GaugeVec

	// The host's last shutdown, in seconds since 1970; the end is 0 while it lasts.
	shutdownStart, shutdownEnd prometheus.Gauge

	start startMetrics
	// Resizes are those of resizes.
	Resizes Resizes
	seen    gauges
	// lastRelist is the PLEG goroutine's own.
	lastRelist time.Time
}

// podStartBuckets are the kubelet's.
var podStartBuckets = []float64{
	0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600,
}

// New registers the engine's metrics; with nil they are kept but shown
// nowhere.
func New(r prometheus.Registerer) *Set {
	m := &Set{
		relist: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kubelet_pleg_relist_duration_seconds", Help: "Duration of complete listings of the remote.",
			Buckets: prometheus.DefBuckets,
		}),
		interval: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kubelet_pleg_relist_interval_seconds", Help: "Interval in seconds between relisting in PLEG.",
			Buckets: prometheus.DefBuckets,
		}),
		pods: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kubelet_active_pods", Help: "Pods that the node works on.",
		}),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "burstlet_pod_changes_total", Help: "Pod changes from the API by kind.",
		}, []string{"op"}),
		podStart: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "kubelet_pod_start_duration_seconds",
			Help:    "Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run",
			Buckets: podStartBuckets,
		}),
		workerStart: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "kubelet_pod_worker_start_duration_seconds",
			Help:    "Duration in seconds from kubelet seeing a pod to starting a worker.",
			Buckets: prometheus.DefBuckets,
		}),
		worker: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "kubelet_pod_worker_duration_seconds",
			Help:    "Duration in seconds to sync a single pod. Broken down by operation type: create, sync, or kill",
			Buckets: prometheus.DefBuckets,
		}, []string{"operation_type"}),
		collected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_image_garbage_collected_total",
			Help: "Total number of images garbage collected by the kubelet, whether through disk usage or image age.",
		}, []string{"reason"}),
		evictions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_evictions", Help: "Cumulative number of pod evictions by eviction signal",
		}, []string{"eviction_signal"}),
		statsAge: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "kubelet_eviction_stats_age_seconds",
			Help:    "Time between when stats are collected, and when pod is evicted based on those stats by eviction signal",
			Buckets: prometheus.DefBuckets,
		}, []string{"eviction_signal"}),
		preempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_preemptions", Help: "Cumulative number of pod preemptions by preemption resource",
		}, []string{"preemption_signal"}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_admission_rejections_total", Help: "Cumulative number pod admission rejections by the Kubelet.",
		}, []string{"reason"}),
		disk: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "burstlet_image_filesystem_bytes",
			Help: "Bytes of the file system that images stand on, as it was last measured: used or capacity.",
		}, []string{"kind"}),
	}
	m.shutdownStart = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kubelet_graceful_shutdown_start_time_seconds",
		Help: "Last graceful shutdown start time since unix epoch in seconds",
	})
	m.shutdownEnd = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kubelet_graceful_shutdown_end_time_seconds",
		Help: "Last graceful shutdown end time since unix epoch in seconds",
	})
	m.start, m.Resizes = newStartMetrics(), newResizeMetrics()
	// From 0 on, so that the first one is an increase.
	for _, signal := range slices.Concat(eviction.Limits(), eviction.Signals()) {
		m.evictions.WithLabelValues(string(signal))
	}
	for _, why := range imagegc.Reasons() {
		m.collected.WithLabelValues(why)
	}
	if r != nil {
		r.MustRegister(m.Resizes.collectors()...)
		r.MustRegister(m.start.collectors()...)
		r.MustRegister(m.shutdownStart, m.shutdownEnd)
		r.MustRegister(m.relist, m.interval, m.pods, m.changes, m.podStart, m.workerStart, m.worker, m.collected, m.evictions,
			m.statsAge, m.preempts, m.rejected, m.disk, &m.seen)
	}
	return m
}

// ImageDisk notes what the file system of images holds.
func (m *Set) ImageDisk(used, capacity uint64) {
	m.disk.WithLabelValues("used").Set(float64(used))
	m.disk.WithLabelValues("capacity").Set(float64(capacity))
}

// rejectionWord bounds the reasons of rejections: those that name a resource are
// one where the resource is not one that every node has (kubelet:
// recordAdmissionRejection).
func rejectionWord(reason string) string {
	resource, ok := strings.CutPrefix(reason, "OutOf")
	switch corev1.ResourceName(resource) {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, corev1.ResourceEphemeralStorage:
		return reason
	}
	if ok {
		return "OutOfExtendedResources"
	}
	return reason
}

// Relisted notes a complete listing that took so long and ends now.
func (m *Set) Relisted(d time.Duration) {
	m.relist.Observe(d.Seconds())
	now := time.Now()
	if !m.lastRelist.IsZero() {
		m.interval.Observe(now.Sub(m.lastRelist).Seconds())
	}
	m.lastRelist = now
}

// Watch has the gauges count what an engine knows.
func (m *Set) Watch(w Watched) { m.seen.of.Store(&w) }

// Observed takes a pod as the API has it, and observes its start once.
func (m *Set) Observed(s *PodStart, pod *corev1.Pod, now time.Time) {
	s.observed(pod, now, &m.start)
}

// HostShutsDown notes that the pods of a host that shuts down begin to end.
func (m *Set) HostShutsDown() {
	m.shutdownStart.SetToCurrentTime()
	m.shutdownEnd.Set(0)
}

// HostIsEmpty notes that the pods of a host that shuts down have ended.
func (m *Set) HostIsEmpty() { m.shutdownEnd.SetToCurrentTime() }

// Running notes how many pods the engine works on.
func (m *Set) Running(n int) { m.pods.Set(float64(n)) }

// Change notes a change of a pod in the API.
func (m *Set) Change(op podsource.Op) { m.changes.WithLabelValues(op.String()).Inc() }

// Evicted notes that a pod is evicted for a signal.
func (m *Set) Evicted(s eviction.Signal) { m.evictions.WithLabelValues(string(s)).Inc() }

// Refused notes that a pod is not admitted.
func (m *Set) Refused(reason string) { m.rejected.WithLabelValues(rejectionWord(reason)).Inc() }

// ImageRemoved notes that an image was removed, and why.
func (m *Set) ImageRemoved(why string) { m.collected.WithLabelValues(why).Inc() }

// WorkerBegan notes that a pod that was first seen at a time is decided on.
func (m *Set) WorkerBegan(seen time.Time) { m.workerStart.Observe(time.Since(seen).Seconds()) }

// Preempted notes that a pod makes room for a critical one, which lacks a resource.
func (m *Set) Preempted(lacks corev1.ResourceName) {
	m.preempts.WithLabelValues(string(lacks)).Inc()
}

// StatsAged notes how old the measurement was by which a pod is evicted.
func (m *Set) StatsAged(s eviction.Signal, age time.Duration) {
	m.statsAge.WithLabelValues(string(s)).Observe(max(0, age).Seconds())
}

// Reported notes that a pod that was first seen at a time goes from one phase to
// another: its start is over when it runs.
func (m *Set) Reported(seen time.Time, old, now corev1.PodPhase) {
	if (old == corev1.PodPending || old == "") && now == corev1.PodRunning {
		m.podStart.Observe(time.Since(seen).Seconds())
	}
}

// Worked notes that the actions of a plan have ended that began at a time.
func (m *Set) Worked(p *plan.Plan, begun time.Time) {
	m.worker.WithLabelValues(operationOf(p)).Observe(time.Since(begun).Seconds())
}

// operationOf is the kubelet's word for what a plan is for.
func operationOf(p *plan.Plan) string {
	if p.Termination != nil {
		return "kill"
	}
	for _, a := range p.Actions {
		if _, ok := a.(plan.Launch); ok {
			return "create"
		}
	}
	return "sync"
}
