package syncloop

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/burstlet/burstlet/backend"
)

var (
	runningPods = prometheus.NewDesc("kubelet_running_pods",
		"Number of pods that have a running pod sandbox", nil, nil)
	runningContainers = prometheus.NewDesc("kubelet_running_containers",
		"Number of containers currently running", []string{"container_state"}, nil)
	lastSeen = prometheus.NewDesc("kubelet_pleg_last_seen_seconds",
		"Timestamp in seconds when PLEG was last seen active.", nil, nil)
)

// gauges show what an engine knows of the remote, counted when somebody asks.
type gauges struct{ loop atomic.Pointer[Loop] }

// Describe names the gauges.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	ch <- runningPods
	ch <- runningContainers
	ch <- lastSeen
}

// Collect counts what the workers know.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	l := g.loop.Load()
	if l == nil {
		return
	}
	pods, containers := l.census()
	ch <- prometheus.MustNewConstMetric(runningPods, prometheus.GaugeValue, float64(pods))
	for state, n := range containers {
		ch <- prometheus.MustNewConstMetric(runningContainers, prometheus.GaugeValue, float64(n), stateWords[state])
	}
	if at := l.LastRelist(); !at.IsZero() {
		ch <- prometheus.MustNewConstMetric(lastSeen, prometheus.GaugeValue, float64(at.UnixNano())/float64(time.Second))
	}
}

// stateWords are the kubelet's, by backend.State.
var stateWords = [...]string{backend.Waiting: "created", backend.Running: "running", backend.Exited: "exited"}

// census counts live pods, and containers by their state.
func (l *Loop) census() (pods int, containers [len(stateWords)]int) {
	for _, w := range l.all() {
		_, _, facts := w.snapshot()
		live := false
		for i := range facts {
			live = live || facts[i].Live
			for j := range facts[i].Containers {
				containers[facts[i].Containers[j].State()]++
			}
		}
		if live {
			pods++
		}
	}
	return pods, containers
}
