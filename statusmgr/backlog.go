package statusmgr

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	pendingStatuses = prometheus.NewDesc("burstlet_status_pending",
		"Number of pods whose status is not in the API yet.", nil, nil)
	oldestPending = prometheus.NewDesc("burstlet_status_oldest_pending_seconds",
		"How long the status that waits longest is not in the API yet; 0 without any.", nil, nil)
)

// backlog shows what waits to be written, counted when somebody asks.
type backlog struct {
	mu sync.Mutex
	of []*Manager
}

func (b *backlog) add(m *Manager) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of = append(b.of, m)
}

// Describe implements [prometheus.Collector].
func (b *backlog) Describe(ch chan<- *prometheus.Desc) {
	ch <- pendingStatuses
	ch <- oldestPending
}

// Collect implements [prometheus.Collector].
func (b *backlog) Collect(ch chan<- prometheus.Metric) {
	b.mu.Lock()
	managers := b.of
	b.mu.Unlock()
	now, sum := time.Now(), 0
	var oldest time.Duration
	for _, m := range managers {
		pending, age := m.pending(now)
		sum += pending
		oldest = max(oldest, age)
	}
	ch <- prometheus.MustNewConstMetric(pendingStatuses, prometheus.GaugeValue, float64(sum))
	ch <- prometheus.MustNewConstMetric(oldestPending, prometheus.GaugeValue, oldest.Seconds())
}

// pending counts the pods with a status that is to be written and is not in the API
// yet, and says since when the oldest of them waits. A phase that is held back is not
// counted: it waits for the remote, not for the API.
func (m *Manager) pending(now time.Time) (n int, oldest time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid := range m.entries {
		e := m.entries[uid]
		_, dirty := m.dirty[uid]
		_, stuck := m.stuck[uid]
		if !dirty && !stuck || e.since.IsZero() {
			continue
		}
		n++
		oldest = max(oldest, now.Sub(e.since))
	}
	return n, oldest
}
