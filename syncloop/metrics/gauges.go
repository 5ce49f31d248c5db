package metrics

import (
	"iter"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

var (
	runningPods = prometheus.NewDesc("kubelet_running_pods",
		"Number of pods that have a running pod sandbox", nil, nil)
	runningContainers = prometheus.NewDesc("kubelet_running_containers",
		"Number of containers currently running", []string{"container_state"}, nil)
	lastSeen = prometheus.NewDesc("kubelet_pleg_last_seen_seconds",
		"Timestamp in seconds when PLEG was last seen active.", nil, nil)
	podsByPhase = prometheus.NewDesc("burstlet_pods",
		"Number of pods that the node works on, by the phase of the status that they should have.", []string{"phase"}, nil)
	oldestStart = prometheus.NewDesc("burstlet_pod_start_oldest_seconds",
		"How long the pod that has waited longest is Pending on this node, since it was first seen; 0 without any.", nil, nil)
	oldestEnd = prometheus.NewDesc("burstlet_pod_end_overdue_seconds",
		"How long the end of the most overdue pod should be over, its grace not counted; 0 without any.", nil, nil)
	waitingWorkers = prometheus.NewDesc("burstlet_pod_workers_waiting",
		"Number of pods that wait for a turn to be decided on.", nil, nil)
)

// Watched is what the gauges are counted of when somebody asks.
type Watched struct {
	// Pods are those that the engine works on.
	Pods iter.Seq[Pod]
	// Waiting counts pods that wait for a turn to be decided on.
	Waiting func() int
	// LastRelist is when the remote was last listed whole; zero if it never was.
	LastRelist func() time.Time
}

// Pod is what the engine knows of one pod.
type Pod struct {
	// Pod is nil for one that the API does not have.
	Pod *corev1.Pod
	// Status is the one that it should have.
	Status corev1.PodStatus
	Facts  []backend.PodFacts
	// Seen is when it was first seen.
	Seen time.Time
}

// gauges show what an engine knows of the remote, counted when somebody asks.
type gauges struct{ of atomic.Pointer[Watched] }

// Describe names the gauges.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	ch <- runningPods
	ch <- runningContainers
	ch <- lastSeen
	ch <- podsByPhase
	ch <- oldestStart
	ch <- oldestEnd
	ch <- waitingWorkers
	ch <- pendingResizes
	ch <- inProgressResizes
}

// Collect counts what the workers know.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	w := g.of.Load()
	if w == nil {
		return
	}
	pods, containers := w.census()
	ch <- prometheus.MustNewConstMetric(runningPods, prometheus.GaugeValue, float64(pods))
	for state, n := range containers {
		ch <- prometheus.MustNewConstMetric(runningContainers, prometheus.GaugeValue, float64(n), stateWords[state])
	}
	ch <- prometheus.MustNewConstMetric(waitingWorkers, prometheus.GaugeValue, float64(w.Waiting()))
	w.progress(time.Now()).collect(ch)
	w.collectResizes(ch)
	if at := w.LastRelist(); !at.IsZero() {
		ch <- prometheus.MustNewConstMetric(lastSeen, prometheus.GaugeValue, float64(at.UnixNano())/float64(time.Second))
	}
}

// stateWords are the kubelet's, by backend.State.
var stateWords = [...]string{backend.Waiting: "created", backend.Running: "running", backend.Exited: "exited"}

// census counts live pods, and containers by their state.
func (w *Watched) census() (pods int, containers [len(stateWords)]int) {
	for pod := range w.Pods {
		live := false
		for i := range pod.Facts {
			live = live || pod.Facts[i].Live
			for j := range pod.Facts[i].Containers {
				containers[pod.Facts[i].Containers[j].State()]++
			}
		}
		if live {
			pods++
		}
	}
	return pods, containers
}

// podProgress is how far the node's pods are.
type podProgress struct {
	phases            map[corev1.PodPhase]int
	starting, overdue time.Duration
}

// allPhases are those that are shown, also while no pod has one.
var allPhases = []corev1.PodPhase{
	corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed, corev1.PodUnknown,
}

func (p podProgress) collect(ch chan<- prometheus.Metric) {
	for _, phase := range allPhases {
		ch <- prometheus.MustNewConstMetric(podsByPhase, prometheus.GaugeValue, float64(p.phases[phase]), string(phase))
	}
	ch <- prometheus.MustNewConstMetric(oldestStart, prometheus.GaugeValue, p.starting.Seconds())
	ch <- prometheus.MustNewConstMetric(oldestEnd, prometheus.GaugeValue, p.overdue.Seconds())
}

// progress goes over all pods. One that is unknown to the API has no phase and no
// deadline.
func (w *Watched) progress(now time.Time) podProgress {
	p := podProgress{phases: map[corev1.PodPhase]int{}}
	for pod := range w.Pods {
		if pod.Pod == nil {
			continue
		}
		phase := pod.Status.Phase
		if phase == "" {
			phase = corev1.PodPending
		}
		p.phases[phase]++
		switch {
		case pod.Pod.DeletionTimestamp != nil:
			p.overdue = max(p.overdue, now.Sub(pod.Pod.DeletionTimestamp.Time))
		case phase == corev1.PodPending:
			p.starting = max(p.starting, now.Sub(pod.Seen))
		}
	}
	return p
}
