package admit

import (
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// Preempt returns the pods that are to end so that a critical one fits, which nothing else
// keeps from being admitted, and what it lacks; none where that is not so, or where the end
// of no set of them would be enough. running are those that may be ended; of them only
// admitted ones count. What pods hold that leave is not counted: see [AdmittedPods.Awaits].
//
// They are chosen as a kubelet does (preemption.go): no Guaranteed pod that the end of all
// Burstable and BestEffort ones would spare, no Burstable one that the end of all BestEffort
// ones would spare; as few as possible, and of equals the smaller.
func (l *AdmittedPods) Preempt(
	pod *corev1.Pod, running []*corev1.Pod, node Node,
) (victims []*corev1.Pod, lacks corev1.ResourceName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.rejected[pod.UID]; known || !backend.Critical(pod) {
		return nil, ""
	}
	for uid := range l.leaving {
		l.used.sub(l.admitted[uid])
	}
	r := decide(pod, &node, l.used, l.refusals(pod))
	missing := l.used.missing(pod, &node)
	for uid := range l.leaving {
		l.used.add(l.admitted[uid])
	}
	if r == nil || !strings.HasPrefix(r.Reason, outOf) {
		return nil, ""
	}
	var classes [3][]candidate // BestEffort, Burstable, Guaranteed
	for _, p := range running {
		share, ok := l.admitted[p.UID]
		if _, leaves := l.leaving[p.UID]; !ok || leaves || !preemptable(pod, p) {
			continue
		}
		i := slices.Index(
			[]corev1.PodQOSClass{corev1.PodQOSBestEffort, corev1.PodQOSBurstable, corev1.PodQOSGuaranteed}, QOS(p),
		)
		classes[max(0, i)] = append(classes[max(0, i)], candidate{p, share.requests})
	}
	chosen, ok := choose(classes, missing)
	if !ok {
		return nil, ""
	}
	for _, c := range chosen {
		victims = append(victims, c.pod)
	}
	return victims, missing[0].name
}

// preemptable is true where one pod may end another (kubelet: Preemptable).
func preemptable(preemptor, pod *corev1.Pod) bool {
	if backend.Critical(preemptor) && !backend.Critical(pod) {
		return true
	}
	a, b := preemptor.Spec.Priority, pod.Spec.Priority
	return a != nil && b != nil && *a > *b
}

// candidate is a pod that may be ended, with what it holds.
type candidate struct {
	pod      *corev1.Pod
	requests []amount
}

func (c candidate) has(name corev1.ResourceName) int64 {
	if name == corev1.ResourcePods {
		return 1
	}
	for _, a := range c.requests {
		if a.name == name {
			return a.value
		}
	}
	return 0
}

// choose goes from the most protected class to the least; false where all are not enough.
func choose(classes [3][]candidate, missing []amount) ([]candidate, bool) {
	var chosen []candidate
	for i := len(classes) - 1; i >= 0; i-- {
		others := slices.Concat(slices.Concat(classes[:i]...), chosen)
		some, ok := nearest(classes[i], after(missing, others...))
		if !ok {
			return nil, false
		}
		chosen = slices.Concat(some, chosen)
	}
	return chosen, true
}

// nearest takes pods one by one, each time the one that leaves least of what is missing
// (kubelet: getPodsToPreemptByDistance).
func nearest(pods []candidate, missing []amount) (chosen []candidate, ok bool) {
	pods = slices.Clone(pods)
	for len(missing) > 0 {
		if len(pods) == 0 {
			return nil, false
		}
		best, bestDistance := 0, math.Inf(1)
		for i := range pods {
			d := pods[i].distance(missing)
			if d < bestDistance || d == bestDistance && pods[i].smaller(pods[best]) {
				best, bestDistance = i, d
			}
		}
		missing = after(missing, pods[best])
		chosen = append(chosen, pods[best])
		pods = slices.Delete(pods, best, best+1)
	}
	return chosen, true
}

// distance is what would be missing still, each resource by its share.
func (c candidate) distance(missing []amount) (sum float64) {
	for _, m := range missing {
		if left := float64(m.value - c.has(m.name)); left > 0 {
			sum += math.Pow(left/float64(m.value), 2)
		}
	}
	return sum
}

func (c candidate) smaller(other candidate) bool {
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceCPU} {
		if a, b := c.has(name), other.has(name); a != b {
			return a < b
		}
	}
	return true
}

// after is what is missing still without these pods.
func after(missing []amount, pods ...candidate) (left []amount) {
	for _, m := range missing {
		for _, p := range pods {
			m.value -= p.has(m.name)
		}
		if m.value > 0 {
			left = append(left, m)
		}
	}
	return left
}
