package admit

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

func ofClass(class corev1.PodQOSClass) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.QOSClass = class }
}

func important(priority int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Priority = &priority }
}

// TestPreempt: preemption_test.go TestEvictPodsToFreeRequests and TestGetPodsToPreempt.
func TestPreempt(t *testing.T) {
	const best, burst, sure = corev1.PodQOSBestEffort, corev1.PodQOSBurstable, corev1.PodQOSGuaranteed
	node := aNode()
	node.Allocatable = list("pods", "6", "cpu", "2", "memory", "1000Mi")
	critical := important(backend.SystemCriticalPriority)
	for name, tt := range map[string]struct {
		pod     *corev1.Pod
		running []*corev1.Pod
		leaving string
		want    string
		lacks   corev1.ResourceName
	}{
		"it fits": {
			pod: aPod("c", critical, asks("cpu", "1")), running: []*corev1.Pod{aPod("a", asks("cpu", "1"), ofClass(burst))},
		},
		"it is not critical": {
			pod: aPod("c", asks("cpu", "2")), running: []*corev1.Pod{aPod("a", asks("cpu", "1"), ofClass(burst))},
		},
		"others are as critical": {pod: aPod("c", critical, asks("cpu", "2")), running: []*corev1.Pod{aPod(
			"a", critical, asks("cpu", "1"), ofClass(burst),
		)}},
		"more than the node has": {
			pod: aPod("c", critical, asks("cpu", "3")), running: []*corev1.Pod{aPod("a", asks("cpu", "2"), ofClass(burst))},
		},
		"something else is in its way": {
			pod:     aPod("c", critical, asks("cpu", "2"), func(p *corev1.Pod) { p.Spec.NodeName = "other" }),
			running: []*corev1.Pod{aPod("a", asks("cpu", "1"), ofClass(burst))},
		},
		"of two critical ones, the lower": {
			pod: aPod("c", important(backend.SystemCriticalPriority+1000), asks("cpu", "2")), want: "a", lacks: "cpu",
			running: []*corev1.Pod{aPod("a", critical, asks("cpu", "1"), ofClass(burst))},
		},
		"the one that is enough, not two": {
			pod: aPod("c", critical, asks("cpu", "1")), want: "b", lacks: "cpu",
			running: []*corev1.Pod{
				aPod("a", asks("cpu", "500m"), ofClass(burst)), aPod("b", asks("cpu", "1"), ofClass(burst)),
				aPod("d", asks("cpu", "500m"), ofClass(burst)),
			},
		},
		"of those that are enough, the smaller": {
			pod: aPod("c", critical, asks("memory", "100Mi")), want: "b", lacks: "memory",
			running: []*corev1.Pod{
				aPod("a", asks("memory", "800Mi"), ofClass(burst)), aPod("b", asks("memory", "200Mi"), ofClass(burst)),
			},
		},
		"Burstable before Guaranteed": {
			pod: aPod("c", critical, asks("cpu", "1")), want: "a b", lacks: "cpu",
			running: []*corev1.Pod{
				aPod("a", asks("cpu", "500m"), ofClass(burst)), aPod("b", asks("cpu", "500m"), ofClass(burst)),
				aPod("g", asks("cpu", "1"), ofClass(sure)),
			},
		},
		"Guaranteed where there is no other way": {
			pod: aPod("c", critical, asks("cpu", "2")), want: "a g", lacks: "cpu",
			running: []*corev1.Pod{aPod("a", asks("cpu", "1"), ofClass(burst)), aPod("g", asks("cpu", "1"), ofClass(sure))},
		},
		"the number of pods: BestEffort first": {
			pod: aPod("c", critical), want: "e", lacks: "pods",
			running: []*corev1.Pod{
				aPod("1", ofClass(sure)), aPod("2", ofClass(sure)), aPod("3", ofClass(burst)), aPod("4", ofClass(burst)),
				aPod("5", ofClass(burst)), aPod("e", ofClass(best)),
			},
		},
		"two resources": {
			pod: aPod("c", critical, asks("cpu", "1", "memory", "500Mi")), want: "m z", lacks: "cpu",
			running: []*corev1.Pod{
				aPod("z", asks("cpu", "2"), ofClass(burst)), aPod("m", asks("memory", "800Mi"), ofClass(burst)),
			},
		},
		"who leaves anyway is enough": {
			pod: aPod("c", critical, asks("cpu", "1")), leaving: "a",
			running: []*corev1.Pod{aPod("a", asks("cpu", "1"), ofClass(burst)), aPod("b", asks("cpu", "1"), ofClass(burst))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewAdmittedPods()
			for _, p := range tt.running {
				l.Add(p)
			}
			for _, p := range tt.running {
				if p.Name == tt.leaving {
					l.Leave(p.UID)
				}
			}
			victims, lacks := l.Preempt(tt.pod, tt.running, node)
			var got []string
			for _, v := range victims {
				got = append(got, v.Name)
			}
			slices.Sort(got)
			if strings.Join(got, " ") != tt.want || lacks != tt.lacks {
				t.Errorf("ends %v for %q, want %s for %q", got, lacks, tt.want, tt.lacks)
			}
			for _, v := range victims {
				l.Remove(v.UID)
			}
			if r, _ := l.Judge(tt.pod, node); tt.want != "" && r != nil {
				t.Errorf("it does not fit still: %+v", r)
			}
		})
	}
}
