package metrics

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/syncloop/plan"
)

// startMetrics are how long pods take to start since they were created.
type startMetrics struct {
	total prometheus.Histogram
	// sli leaves out pulls and init containers, and stateful pods
	// (sig-scalability/slos/pod_startup_latency.md).
	sli prometheus.Histogram
}

func newStartMetrics() startMetrics {
	const until = ", measured from pod creation timestamp to when all its containers are reported as started and " +
		"observed via watch"
	return startMetrics{
		total: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kubelet_pod_start_total_duration_seconds",
			Help: "Duration in seconds to start a pod since creation, including time to pull images and run init containers" +
				until,
			Buckets: podStartBuckets,
		}),
		sli: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "kubelet_pod_start_sli_duration_seconds",
			Help:    "Duration in seconds to start a pod, excluding time to pull images and run init containers" + until,
			Buckets: podStartBuckets,
		}),
	}
}

func (m *startMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.total, m.sli}
}

// interval is a time in which something lasted.
type interval struct{ from, to time.Time }

// PodStart follows the start of one pod (kubelet: PodStartupLatencyTracker).
type PodStart struct {
	mu sync.Mutex
	// done is true for a pod that is measured no more, or never was.
	done  bool
	pulls []interval
}

// Pulled notes that a pull of an image for the pod lasted so long.
func (s *PodStart) Pulled(from, to time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.done {
		s.pulls = append(s.pulls, interval{from, to})
	}
}

// Began takes the pod as it was first seen: one that had begun, or waited for room in the
// cluster, is not measured.
func (s *PodStart) Began(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = pod == nil || !pod.Status.StartTime.IsZero() || plan.Terminal(pod.Status.Phase) || waitedForRoom(pod)
}

// observed takes the pod as the API has it, and observes its start once.
func (s *PodStart) observed(pod *corev1.Pod, now time.Time, m *startMetrics) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.done:
		return
	case plan.Terminal(pod.Status.Phase), waitedForRoom(pod):
		s.done, s.pulls = true, nil
		return
	case !allStarted(pod):
		return
	}
	took := now.Sub(pod.CreationTimestamp.Time)
	m.total.Observe(took.Seconds())
	if !stateful(pod) {
		m.sli.Observe(max(0, took-together(s.pulls)-initTime(&pod.Status)).Seconds())
	}
	s.done, s.pulls = true, nil
}

// together is how long some of the intervals lasted; where they overlap it counts once.
func together(all []interval) (sum time.Duration) {
	all = slices.SortedFunc(slices.Values(all), func(a, b interval) int { return a.from.Compare(b.from) })
	var end time.Time
	for _, i := range all {
		if i.from.Before(end) {
			i.from = end
		}
		if i.to.After(i.from) {
			sum += i.to.Sub(i.from)
			end = i.to
		}
	}
	return sum
}

// initTime is how long init containers ran that have ended, as their statuses tell.
func initTime(status *corev1.PodStatus) (sum time.Duration) {
	for i := range status.InitContainerStatuses {
		c := &status.InitContainerStatuses[i]
		for _, end := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
			if end != nil && !end.StartedAt.IsZero() {
				sum += max(0, end.FinishedAt.Sub(end.StartedAt.Time))
			}
		}
	}
	return sum
}

// allStarted is true where every container runs.
func allStarted(pod *corev1.Pod) bool {
	return len(pod.Status.ContainerStatuses) == len(pod.Spec.Containers) &&
		!slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
			return c.State.Running == nil || c.State.Running.StartedAt.IsZero()
		})
}

// stateful pods mount what is neither a pod's own nor the API's.
func stateful(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Secret == nil && v.ConfigMap == nil && v.DownwardAPI == nil && v.EmptyDir == nil && v.Projected == nil
	})
}

// waitedForRoom is true for a pod that could not be scheduled at once.
func waitedForRoom(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse
	})
}
