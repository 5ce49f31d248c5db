package eviction

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Policy is what a node evicts pods by.
type Policy struct {
	Thresholds []Threshold
	// MaxPodGracePeriod is the most that a pod gets to end for a soft threshold.
	MaxPodGracePeriod time.Duration
	// PressureTransitionPeriod is how long a condition of the node stays after its last
	// threshold was met.
	PressureTransitionPeriod time.Duration
}

// Manager remembers since when thresholds are met (kubelet: managerImpl). It is not safe
// for use by several goroutines.
type Manager struct {
	policy Policy
	// since is when each threshold was first met, by its index, for those that are;
	// unresolved are those that are acted on until enough is had back.
	since      map[int]time.Time
	unresolved []int
	// observed is when a threshold of each condition was last met.
	observed map[corev1.NodeConditionType]time.Time
}

// NewManager returns one to which nothing was shown yet.
func NewManager(policy Policy) *Manager {
	return &Manager{policy: policy, since: map[int]time.Time{}, observed: map[corev1.NodeConditionType]time.Time{}}
}

// Verdict is what follows from a measurement.
type Verdict struct {
	// Conditions are those of the node that are true, in a fixed order.
	Conditions []corev1.NodeConditionType
	// Met are the thresholds to act on, memory first: pods are evicted for the first one.
	Met []Threshold
}

// Judge takes a measurement over.
//
//	met, now or since                 its condition is true, and stays so for the
//	                                  transition period
//	met for its grace period          it is acted on …
//	not met any more, but less than   … until the minimum was had back
//	the minimum was had back
func (m *Manager) Judge(now time.Time, o Observations) Verdict {
	since, conditions := map[int]time.Time{}, map[corev1.NodeConditionType]bool{}
	m.unresolved = slices.DeleteFunc(m.unresolved, func(i int) bool { return !o.met(&m.policy.Thresholds[i], true) })
	for i := range m.policy.Thresholds {
		t := &m.policy.Thresholds[i]
		if !o.met(t, false) && !slices.Contains(m.unresolved, i) {
			continue
		}
		first, before := m.since[i]
		if !before {
			first = now
		}
		since[i] = first
		m.observed[t.Signal.condition()] = now
	}
	m.since, m.unresolved = since, nil
	for kind, at := range m.observed {
		conditions[kind] = at.Equal(now) || now.Sub(at) < m.policy.PressureTransitionPeriod
	}
	var v Verdict
	for _, kind := range []corev1.NodeConditionType{
		corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
	} {
		if conditions[kind] {
			v.Conditions = append(v.Conditions, kind)
		}
	}
	for i := range m.policy.Thresholds { // they stand in the order of their signals
		if first, met := since[i]; met && now.Sub(first) >= m.policy.Thresholds[i].Grace {
			m.unresolved = append(m.unresolved, i)
			v.Met = append(v.Met, m.policy.Thresholds[i])
		}
	}
	return v
}

// Relieved is true where no threshold is met, with what is to be had back: what was
// removed of the node's own was enough.
func (m *Manager) Relieved(o Observations) bool {
	return !slices.ContainsFunc(m.policy.Thresholds, func(t Threshold) bool { return o.met(&t, true) })
}
