package syncloop_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend/sim"
	"github.com/burstlet/burstlet/syncloop"
)

// TestPreemption: a critical pod for which there is no room gets that of another, which has
// its own grace to end, and of which nothing stays; whoever came before it waits longer.
func TestPreemption(t *testing.T) {
	each(t, sim.Config{Files: true}, func(t *testing.T, a *api) {
		b := a.remote.Backend()
		a.setNode(func() syncloop.Node {
			n := node(b)
			n.Admission.Allocatable = corev1.ResourceList{
				"cpu": resource.MustParse("2"), "memory": resource.MustParse("1Gi"), "pods": resource.MustParse("10"),
			}
			return n
		})
		one, all := requests(corev1.ResourceCPU, "1"), requests(corev1.ResourceCPU, "2")
		slow := func(pod *corev1.Pod) {
			one(pod)
			pod.Spec.TerminationGracePeriodSeconds = new(int64(20))
		}
		a.create("small", "u1", "Always", requests(corev1.ResourceCPU, "10m"), "sleep", "infinity")
		a.create("victim", "u2", "Always", slow, "sh", "-c", "trap '' TERM; sleep infinity")
		time.Sleep(5 * time.Second)
		a.create("critical", "u3", "Always", func(pod *corev1.Pod) {
			withPriority(2_000_000_000)(pod)
			requests(corev1.ResourceCPU, "1500m")(pod)
		}, "sleep", "infinity")
		time.Sleep(10 * time.Second)
		a.phase("critical", corev1.PodPending)
		a.create("late", "u4", "Always", func(pod *corev1.Pod) { // it comes late, and was made before
			one(pod)
			pod.CreationTimestamp.Time = pod.CreationTimestamp.Add(-time.Hour)
		}, "sleep", "infinity")
		a.create("never", "u5", "Always", func(pod *corev1.Pod) {
			all(pod)
			withPriority(2_000_000_000)(pod)
			pod.Spec.NodeSelector = map[string]string{"no": "where"}
		}, "sleep", "infinity")
		time.Sleep(30 * time.Second)
		a.phase("critical", corev1.PodRunning)
		a.phase("small", corev1.PodRunning)
		a.phase("victim", corev1.PodFailed)
		a.phase("late", corev1.PodFailed)
		if s := a.get("late").Status; s.Reason != "OutOfcpu" {
			t.Errorf("late: %s: %s", s.Reason, s.Message)
		}
		if s := a.get("never").Status; s.Reason != "NodeAffinity" {
			t.Errorf("never: %s: %s", s.Reason, s.Message)
		}
		s := a.get("victim").Status
		c := conditionOf(&s, corev1.DisruptionTarget)
		if s.Reason != "Preempting" || s.Message != "Preempted in order to admit critical pod" || c == nil ||
			c.Reason != corev1.PodReasonTerminationByKubelet ||
			c.Message != "Pod was preempted by Kubelet to accommodate a critical pod." {
			t.Errorf("victim: %s: %q, %+v", s.Reason, s.Message, c)
		}
		if got := a.told("victim", "Preempting"); !slices.Equal(
			got, []string{"victim Preempting Preempted in order to admit critical pod"},
		) {
			t.Errorf("Events %q", got)
		}
		if got := a.told("critical", "OutOfcpu"); len(got) > 0 {
			t.Errorf("Events %s", strings.Join(got, "; "))
		}
		if end := s.ContainerStatuses[0].State.Terminated; end == nil ||
			end.FinishedAt.Sub(end.StartedAt.Time) < 20*time.Second {
			t.Errorf("the victim had less than its grace: %+v", end)
		}
	})
}
