package metered

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// The kubelet's names of operations (pkg/volume/util, storage_operation_duration_seconds).
const (
	volumeMount   = "volume_mount"
	volumeUnmount = "volume_unmount"
)

func newStorage() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "storage_operation_duration_seconds",
		Help:    "Storage operation duration",
		Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600},
	}, []string{"volume_plugin", "operation_name", "status", "migrated"})
}

// stored notes one operation on volumes.
func (m *Metrics) stored(plugin, operation string, start time.Time, err error) {
	status := "success"
	if err != nil && !errors.Is(err, backend.ErrNotFound) {
		status = "fail-unknown"
	}
	m.storage.WithLabelValues(plugin, operation, status, "false").Observe(time.Since(start).Seconds())
}

// plugin is the kubelet's name of what makes a volume.
func plugin(s *corev1.VolumeSource) string {
	switch {
	case s.ConfigMap != nil:
		return "kubernetes.io/configmap"
	case s.Secret != nil:
		return "kubernetes.io/secret"
	case s.Projected != nil:
		return "kubernetes.io/projected"
	case s.DownwardAPI != nil:
		return "kubernetes.io/downward-api"
	case s.EmptyDir != nil:
		return "kubernetes.io/empty-dir"
	case s.HostPath != nil:
		return "kubernetes.io/host-path"
	case s.NFS != nil:
		return "kubernetes.io/nfs"
	case s.CSI != nil:
		return "kubernetes.io/csi"
	default:
		return ""
	}
}
