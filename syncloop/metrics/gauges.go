package metrics

import (
	"iter"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/plan"
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

// Collect counts what the workers know, in one look at each pod.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	w := g.of.Load()
	if w == nil {
		return
	}
	c := census{now: time.Now(), phases: map[corev1.PodPhase]int{}, pendingResizes: map[string]int{}}
	for pod := range w.Pods {
		c.countRemote(pod.Facts)
		c.countProgress(&pod)
		c.countResizes(&pod.Status)
	}
	c.collect(ch)
	ch <- prometheus.MustNewConstMetric(waitingWorkers, prometheus.GaugeValue, float64(w.Waiting()))
	if at := w.LastRelist(); !at.IsZero() {
		ch <- prometheus.MustNewConstMetric(lastSeen, prometheus.GaugeValue, float64(at.UnixNano())/float64(time.Second))
	}
}

// stateWords are the kubelet's, by backend.State.
var stateWords = [...]string{backend.Waiting: "created", backend.Running: "running", backend.Exited: "exited"}

// census is what is counted of a node's pods.
type census struct {
	now        time.Time
	live       int
	containers [len(stateWords)]int

	phases            map[corev1.PodPhase]int
	starting, overdue time.Duration

	pendingResizes map[string]int // by reason
	resizing       int
}

// countRemote counts live pods, and containers by their state.
func (c *census) countRemote(attempts []backend.PodFacts) {
	live := false
	for i := range attempts {
		live = live || attempts[i].Live
		for j := range attempts[i].Containers {
			c.containers[attempts[i].Containers[j].State()]++
		}
	}
	if live {
		c.live++
	}
}

// countProgress counts how far a pod is. One that is unknown to the API has no phase and no
// deadline.
func (c *census) countProgress(pod *Pod) {
	if pod.Pod == nil {
		return
	}
	phase := pod.Status.Phase
	if phase == "" {
		phase = corev1.PodPending
	}
	c.phases[phase]++
	switch {
	case pod.Pod.DeletionTimestamp != nil:
		c.overdue = max(c.overdue, c.now.Sub(pod.Pod.DeletionTimestamp.Time))
	case phase == corev1.PodPending:
		c.starting = max(c.starting, c.now.Sub(pod.Seen))
	}
}

// countResizes counts, as the statuses show them, the resizes that wait and that are under way.
func (c *census) countResizes(status *corev1.PodStatus) {
	if pending := plan.TrueCondition(status, corev1.PodResizePending); pending != nil {
		c.pendingResizes[strings.ToLower(pending.Reason)]++
	}
	if plan.TrueCondition(status, corev1.PodResizeInProgress) != nil {
		c.resizing++
	}
}

// allPhases are those that are shown, also while no pod has one.
var allPhases = []corev1.PodPhase{
	corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed, corev1.PodUnknown,
}

func (c *census) collect(ch chan<- prometheus.Metric) {
	show := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	show(runningPods, float64(c.live))
	for state, n := range c.containers {
		show(runningContainers, float64(n), stateWords[state])
	}
	for _, phase := range allPhases {
		show(podsByPhase, float64(c.phases[phase]), string(phase))
	}
	show(oldestStart, c.starting.Seconds())
	show(oldestEnd, c.overdue.Seconds())
	for reason, n := range c.pendingResizes {
		show(pendingResizes, float64(n), reason)
	}
	show(inProgressResizes, float64(c.resizing))
}
