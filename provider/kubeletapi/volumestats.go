package kubeletapi

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/burstlet/burstlet/provider/kubeletapi/stats"
)

const (
	// volumeMaxAge is how old what is shown of volumes may be (kubelet:
	// volumeStatsAggPeriod).
	volumeMaxAge = time.Minute
	// volumeTimeout bounds what a scrape of /metrics waits for a remote that does not
	// answer: the other metrics, which tell of it, must not go missing.
	volumeTimeout = 2 * time.Second
)

// volumeStats shows the metrics kubelet_volume_stats_*. Nothing is measured while no pod
// mounts a claim. A measurement that fails leaves them out, as a kubelet's.
type volumeStats struct{ engine Engine }

// Describe names the metrics.
func (volumeStats) Describe(ch chan<- *prometheus.Desc) { stats.DescribeVolumes(ch) }

// Collect measures, or shows what was measured not long ago.
func (v volumeStats) Collect(ch chan<- prometheus.Metric) {
	pods := v.engine.Pods(stats.HasClaims)
	if len(pods) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), volumeTimeout) //nolint:forbidigo // a scrape brings none
	defer cancel()
	if facts, err := v.engine.Stats(ctx, volumeMaxAge); err == nil {
		stats.CollectVolumes(ch, &facts, pods)
	}
}
