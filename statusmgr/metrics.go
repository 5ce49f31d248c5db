package statusmgr

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// The results of a look at one pod, label "result" of the counters.
const (
	resultWritten   = "written"   // the API took the status, or the delete
	resultUnchanged = "unchanged" // the API held it already: nothing was sent
	resultRefused   = "refused"   // an illegal transition of a container
	resultGone      = "gone"      // the pod, or its name's UID, is no longer ours
	resultConflict  = "conflict"
	resultInvalid   = "invalid"
	resultForbidden = "forbidden"
	resultThrottled = "throttled"
	resultTimeout   = "timeout"
	resultCanceled  = "canceled"
	resultError     = "error"
)

type metrics struct {
	sync    prometheus.Histogram
	writes  *prometheus.CounterVec
	deletes *prometheus.CounterVec
	backlog *backlog
}

// newMetrics registers the package's metrics with reg; nil registers nowhere.
// Several managers may share one Registerer: they then share the metrics.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		// Name and buckets are the kubelet's (pkg/kubelet/metrics/metrics.go).
		sync: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "kubelet_pod_status_sync_duration_seconds",
			Help:    "Seconds from a change of a pod's status until the API holds it, over all changes in between.",
			Buckets: []float64{0.010, 0.050, 0.100, 0.500, 1, 5, 10, 20, 30, 45, 60},
		}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "burstlet_status_writes_total",
			Help: "Pod statuses handled, by result; unchanged and refused ones were not sent.",
		}, []string{"result"}),
		deletes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "burstlet_status_pod_deletes_total",
			Help: "Deletes of finished pods sent to the API, by result.",
		}, []string{"result"}),
	}
	m.backlog = &backlog{}
	if reg == nil {
		return m, nil
	}
	var errs [4]error
	m.sync, errs[0] = register(reg, m.sync)
	m.writes, errs[1] = register(reg, m.writes)
	m.deletes, errs[2] = register(reg, m.deletes)
	m.backlog, errs[3] = register(reg, m.backlog)
	return m, errors.Join(errs[:]...)
}

// register returns the collector to use: c, or the equal one registered before.
func register[C prometheus.Collector](reg prometheus.Registerer, c C) (C, error) {
	err := reg.Register(c)
	var before prometheus.AlreadyRegisteredError
	if errors.As(err, &before) {
		if existing, ok := before.ExistingCollector.(C); ok {
			return existing, nil
		}
	}
	return c, err
}
