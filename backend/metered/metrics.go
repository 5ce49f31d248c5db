package metered

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/burstlet/burstlet/backend"
)

// operation is a value of the label operation_type.
type operation string

// The operations, in CRI's words where it has one.
const (
	podsLaunch       operation = "run_podsandbox"
	podsStop         operation = "stop_podsandbox"
	podsRemove       operation = "remove_podsandbox"
	podsList         operation = "list_podsandbox"
	podsInspect      operation = "podsandbox_status"
	containersStart  operation = "start_container"
	containersStop   operation = "stop_container"
	containersRemove operation = "remove_container"
	resizeResize     operation = "update_container"
	filesPlace       operation = "place_volume"
	filesClear       operation = "clear_volumes"
	filesVolumes     operation = "list_volumes"
	refreshRefresh   operation = "refresh_volumes"
	imagesFind       operation = "image_status"
	imagesPull       operation = "pull_image"
	storeList        operation = "list_images"
	storeRemove      operation = "remove_image"
	storeDisk        operation = "image_fs_info"
	eventsRun        operation = "container_events"
	execExec         operation = "exec"
	attachAttach     operation = "attach"
	forwardForward   operation = "port_forward"
	logsOpen         operation = "open_log"
	dialDial         operation = "dial"
	statsStats       operation = "list_podsandbox_stats"
	nodeDescribe     operation = "status"
)

// Metrics count the calls of one backend or of several.
type Metrics struct {
	operations *prometheus.CounterVec
	errors     *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	classes    *prometheus.CounterVec
	storage    *prometheus.HistogramVec
	info       *prometheus.GaugeVec
	costs      *costs
	ways       *ways
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
		info: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "burstlet_backend_info",
			Help: "A metric with a constant '1' value labeled by the kind of the backend.",
		}, []string{"backend"}),
		costs: &costs{},
		ways:  &ways{},
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.operations, m.errors, m.duration, m.classes, m.storage, m.info, m.costs, m.ways} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of the backend: %w", err)
		}
	}
	return m, nil
}

// done notes one call. Errors of a caller that went away are not the remote's,
// and neither is a NotFound that is the answer to the question.
func (m *Metrics) done(ctx context.Context, op operation, start time.Time, err error) {
	m.operations.WithLabelValues(string(op)).Inc()
	m.duration.WithLabelValues(string(op)).Observe(time.Since(start).Seconds())
	if err == nil || errors.Is(ctx.Err(), context.Canceled) || (answers(op) && errors.Is(err, backend.ErrNotFound)) {
		return
	}
	m.errors.WithLabelValues(string(op)).Inc()
	m.classes.WithLabelValues(string(op), backend.Class(err)).Inc()
}

// answers is true for calls whose NotFound is what they are made for: the proof
// that nothing is left, and that an image is to be pulled.
func answers(op operation) bool {
	switch op {
	case podsStop, podsRemove, containersStop, containersRemove, filesClear, imagesFind, storeRemove:
		return true
	default:
		return false
	}
}

// call makes a call that returns something, and notes it.
func call[T any](ctx context.Context, m *Metrics, op operation, f func() (T, error)) (T, error) {
	start := time.Now()
	out, err := f()
	m.done(ctx, op, start, err)
	return out, err
}

// act makes a call that returns nothing, and notes it.
func act(ctx context.Context, m *Metrics, op operation, f func() error) error {
	start := time.Now()
	err := f()
	m.done(ctx, op, start, err)
	return err
}
