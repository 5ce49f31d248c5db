package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/syncloop/allocation"
)

// Detail says why a resize is infeasible.
type Detail string

const (
	// DetailCapacity is of one that the node has no room for.
	DetailCapacity Detail = "insufficient_node_allocatable"
	// DetailUnsupported is of one that the backend cannot do.
	DetailUnsupported Detail = "unsupported_by_backend"
)

var (
	pendingResizes = prometheus.NewDesc("kubelet_pod_pending_resizes",
		"Number of pending resizes for pods.", []string{"reason"}, nil)
	inProgressResizes = prometheus.NewDesc("kubelet_pod_in_progress_resizes",
		"Number of in-progress resizes for pods.", nil, nil)
)

// Resizes are the kubelet's of resizes.
type Resizes struct {
	requested  *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	infeasible *prometheus.CounterVec
	accepted   *prometheus.CounterVec
}

func newResizeMetrics() Resizes {
	return Resizes{
		requested: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_container_requested_resizes_total",
			Help: "Number of requested resizes, counted at the container level.",
		}, []string{"resource", "requirement", "operation"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "kubelet_pod_resize_duration_milliseconds",
			Help:    "Duration in milliseconds to actuate a pod resize",
			Buckets: []float64{10, 50, 100, 500, 1000, 2000, 5000, 10000, 20000, 30000, 60000, 120000, 300000, 600000},
		}, []string{"success"}),
		infeasible: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_pod_infeasible_resizes_total", Help: "Number of infeasible resizes for pods.",
		}, []string{"reason_detail"}),
		accepted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_pod_deferred_accepted_resizes_total",
			Help: "Cumulative number of resizes that were accepted after being deferred.",
		}, []string{"retry_trigger"}),
	}
}

func (m *Resizes) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.requested, m.duration, m.infeasible, m.accepted}
}

// Resized notes one call that resizes.
func (m *Resizes) Resized(ok bool, d time.Duration) {
	m.duration.WithLabelValues(strconv.FormatBool(ok)).Observe(float64(d.Milliseconds()))
}

// Allocated notes that a change was allocated that had waited for a reason.
func (m *Resizes) Allocated(waited, trigger string) {
	if waited == corev1.PodReasonDeferred {
		m.accepted.WithLabelValues(trigger).Inc()
	}
}

// Refused notes that a resize is infeasible.
func (m *Resizes) Refused(why Detail) { m.infeasible.WithLabelValues(string(why)).Inc() }

// Wanted counts what a pod asks for otherwise than before.
func (m *Resizes) Wanted(before, now *corev1.Pod) {
	count := func(was, is []corev1.Container) {
		for i := range was {
			for _, x := range allocation.Amounts() {
				requirement := "requests"
				if x.Limit {
					requirement = "limits"
				}
				a, _ := x.Of(&was[i].Resources)
				b, _ := x.Of(&is[i].Resources)
				if op := resizeOperation(b, a); op != "" {
					m.requested.WithLabelValues(string(x.Name), requirement, op).Inc()
				}
			}
		}
	}
	count(before.Spec.InitContainers, now.Spec.InitContainers)
	count(before.Spec.Containers, now.Spec.Containers)
}

// resizeOperation is the kubelet's word for a change (resizeOperationForResources).
func resizeOperation(now, before resource.Quantity) string {
	switch c := now.Cmp(before); {
	case now.IsZero() && !before.IsZero():
		return "remove"
	case before.IsZero() && !now.IsZero():
		return "add"
	case c < 0:
		return "decrease"
	case c > 0:
		return "increase"
	}
	return ""
}
