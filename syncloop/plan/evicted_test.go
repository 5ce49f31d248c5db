package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// TestEvictedByItsHost: the host's record of an eviction fails the pod, starts nothing
// again, and stays, with all that the pod has there, until the API has the outcome.
func TestEvictedByItsHost(t *testing.T) {
	recorded := func(a backend.PodFacts) backend.PodFacts {
		a.Evicted = &backend.Eviction{Message: "too much", At: at(2)}
		return a
	}
	failed := func(pod *corev1.Pod) { pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, "Evicted" }
	expired := func(pod *corev1.Pod) {
		running(0)(pod)
		pod.Spec.ActiveDeadlineSeconds = new(int64(1))
	}
	ended := recorded(attempt(0, false, ran1("a", 0, 1, 3, 143)))
	for _, tt := range []struct {
		planCase
		reason string
	}{
		{planCase{
			name: "its containers still run", in: input(aPod(running(0)), 3, recorded(attempt(0, true, runs("a", 0, 1)))),
			want: []string{"stop attempt 0 with grace 2s"}, phase: "Failed", couldRun: true,
		}, "Evicted"},
		{planCase{
			name: "they have ended: none is started again",
			in:   input(aPod(running(0)), 4, recorded(attempt(0, true, ran1("a", 0, 1, 3, 143)))),
			want: []string{"stop attempt 0 with grace 2s"}, phase: "Failed",
		}, "Evicted"},
		{planCase{
			name: "the API does not have it yet: nothing is removed", in: input(aPod(running(0)), 4, ended), phase: "Failed",
		}, "Evicted"},
		{planCase{
			name: "the API has it", in: input(aPod(failed), 4, ended), want: []string{"remove attempt 0"}, phase: "Failed",
		}, "Evicted"},
		{planCase{
			name: "a container ended with 0, and none is to start again", phase: "Failed",
			in: input(aPod(policy("Never"), running(0)), 4, recorded(attempt(0, false, ran1("a", 0, 1, 3, 0)))),
		}, "Evicted"},
		{
			planCase{name: "its deadline has passed meanwhile", in: input(aPod(expired), 60, ended), phase: "Failed"}, "Evicted",
		},
		{planCase{
			name: "it is deleted", in: input(aPod(running(0), deleted(30, 3)), 4, ended), want: []string{"remove attempt 0"},
			phase: "Failed",
		}, "Evicted"},
		{planCase{
			name: "it was over before", in: input(aPod(policy("Never"), completed), 9, ended),
			want: []string{"remove attempt 0"}, phase: "Succeeded",
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := tt.decide(t)
			if p.CouldRun != tt.couldRun || p.Status.Reason != tt.reason {
				t.Errorf("could run %v, reason %q", p.CouldRun, p.Status.Reason)
			}
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.DisruptionTarget {
					t.Errorf("not keeping to one's limits is no disruption: %+v", c)
				}
			}
		})
	}
}
