package monitoring

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/provider/kubeletapi/stats"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// claim is what a volume's metrics name.
const claim = "database"

// notWatched is how the rules below leave out claims.
const notWatched = `
  unless on (cluster, namespace, persistentvolumeclaim)
  kube_persistentvolumeclaim_access_mode{access_mode="ReadOnlyMany"} == 1
  unless on (cluster, namespace, persistentvolumeclaim)
  kube_persistentvolumeclaim_labels{label_excluded_from_alerts="true"} == 1`

// kubePersistentVolume are the expressions over the kubelet's volume metrics in
// kubernetes-mixin: alerts/storage_alerts.libsonnet (KubePersistentVolumeFillingUp,
// KubePersistentVolumeInodesFillingUp, each critical and warning) and
// dashboards/persistentvolumesusage.libsonnet. SELECT is kubeletSelector, VOLUME what the
// dashboard selects with it.
var kubePersistentVolume = []string{
	`(kubelet_volume_stats_available_bytes{SELECT} / kubelet_volume_stats_capacity_bytes{SELECT}) < 0.03
  and kubelet_volume_stats_used_bytes{SELECT} > 0` + notWatched,
	`(kubelet_volume_stats_available_bytes{SELECT} / kubelet_volume_stats_capacity_bytes{SELECT}) < 0.15
  and kubelet_volume_stats_used_bytes{SELECT} > 0
  and predict_linear(kubelet_volume_stats_available_bytes{SELECT}[6h], 4 * 24 * 3600) < 0` + notWatched,
	`(kubelet_volume_stats_inodes_free{SELECT} / kubelet_volume_stats_inodes{SELECT}) < 0.03
  and kubelet_volume_stats_inodes_used{SELECT} > 0` + notWatched,
	`(kubelet_volume_stats_inodes_free{SELECT} / kubelet_volume_stats_inodes{SELECT}) < 0.15
  and kubelet_volume_stats_inodes_used{SELECT} > 0
  and predict_linear(kubelet_volume_stats_inodes_free{SELECT}[6h], 4 * 24 * 3600) < 0` + notWatched,
	`sum without (instance, node) (topk(1, (kubelet_volume_stats_capacity_bytes{VOLUME})))
  - sum without (instance, node) (topk(1, (kubelet_volume_stats_available_bytes{VOLUME})))`,
	`sum without (instance, node) (topk(1, (kubelet_volume_stats_available_bytes{VOLUME})))`,
	`max without (instance, node) ((topk(1, kubelet_volume_stats_capacity_bytes{VOLUME})
  - topk(1, kubelet_volume_stats_available_bytes{VOLUME})) / topk(1, kubelet_volume_stats_capacity_bytes{VOLUME}) * 100)`,
	`sum without (instance, node) (topk(1, (kubelet_volume_stats_inodes_used{VOLUME})))`,
	`sum without (instance, node) (topk(1, (kubelet_volume_stats_inodes{VOLUME})))
  - sum without (instance, node) (topk(1, (kubelet_volume_stats_inodes_used{VOLUME})))`,
	`max without (instance, node) (topk(1, kubelet_volume_stats_inodes_used{VOLUME})
  / topk(1, kubelet_volume_stats_inodes{VOLUME}) * 100)`,
}

// findsVolumes asks them of a claim that is nearly full, and fills up.
func (p *prometheus) findsVolumes(t *testing.T) {
	t.Helper()
	const selector = `job="kubelet", metrics_path="/metrics"`
	fill := strings.NewReplacer("SELECT", selector,
		"VOLUME", fmt.Sprintf(`cluster="", %s, namespace=%q, persistentvolumeclaim=%q`, selector, workNamespace, claim))
	for _, expr := range kubePersistentVolume {
		expr = fill.Replace(expr)
		wait.For(t, patience, expr, func() error {
			points, err := p.data(expr)
			if err == nil && (len(points) != 1 || points[0].value <= 0 || points[0].labels["persistentvolumeclaim"] != claim) {
				err = fmt.Errorf("%v, want more than 0 of claim %s", points, claim)
			}
			return err
		})
	}
	// What the dashboard's variables offer.
	for label, want := range map[string]string{"namespace": workNamespace, "persistentvolumeclaim": claim} {
		query := fmt.Sprintf(`label_values(kubelet_volume_stats_capacity_bytes{%s}, %s)`, selector, label)
		if got, err := p.values(query); err != nil || !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %v, %v, want %s", query, got, err, want)
		}
	}
}

// volumes are what /metrics has of a claim in the n-th scrape: each finds less room.
type volumes struct{ n uint64 }

func (volumes) Describe(ch chan<- *prom.Desc) { stats.DescribeVolumes(ch) }

func (v volumes) Collect(ch chan<- prom.Metric) {
	const size, inodes = 100_000_000, 1_000_000
	left := 20_000 - min(v.n, 10_000)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "u", Namespace: workNamespace, Name: "p"},
		Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}}}},
	}
	stats.CollectVolumes(ch, &backend.StatsFacts{Pods: []backend.PodStats{{
		Ref: backend.Ref{UID: "u", Namespace: workNamespace, Name: "p"}, Containers: []backend.ContainerStats{{Name: "c"}},
		Volumes: map[string]backend.FilesystemUsage{"data": {
			Capacity: new(uint64(size)), Available: new(left * 100), Used: new(size - left*100),
			Inodes: new(uint64(inodes)), InodesFree: new(left), InodesUsed: new(inodes - left),
		}},
	}}}, []*corev1.Pod{pod})
}

// serveVolumes serves them as /metrics of a kubelet.
func serveVolumes(n uint64) http.Handler {
	registry := prom.NewRegistry()
	registry.MustRegister(volumes{n})
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}
