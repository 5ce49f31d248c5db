package syncloop_test

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend/sim"
)

func priority(p int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Priority = &p }
}

func patient(seconds int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.TerminationGracePeriodSeconds = &seconds }
}

// TestShutdown: as a kubelet's graceful node shutdown, by its table in the
// Kubernetes documentation: ordinary pods have the time less that of the critical
// ones, which end last.
func TestShutdown(t *testing.T) {
	each(t, sim.Config{}, func(t *testing.T, a *api) {
		stubborn := []string{"sh", "-c", "trap '' TERM; sleep infinity"}
		a.create("quick", "u1", "Always", nil, "sleep", "infinity")
		a.create("short", "u2", "Always", patient(5), stubborn...)
		a.create("long", "u3", "Always", patient(300), stubborn...)
		a.create("critical", "u4", "Always", priority(2_000_000_000), stubborn...)
		a.create("done", "u5", "Never", nil, "true")
		time.Sleep(5 * time.Second)
		begin := time.Now()
		a.engine.Shutdown(t.Context(), 30*time.Second, 10*time.Second)
		if took := time.Since(begin); took < 30*time.Second || took > 33*time.Second {
			t.Errorf("it took %s, want 30s", took)
		}
		for name, after := range map[string]time.Duration{
			"quick": 0, "short": 5 * time.Second, "long": 20 * time.Second, "critical": 30 * time.Second,
		} {
			a.phase(name, corev1.PodFailed)
			s := a.get(name).Status
			if s.Reason != "Terminated" || s.Message != "Pod was terminated in response to imminent node shutdown." {
				t.Errorf("%s: %s: %s", name, s.Reason, s.Message)
			}
			if !slices.ContainsFunc(s.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "TerminationByKubelet"
			}) {
				t.Errorf("%s: no DisruptionTarget: %+v", name, s.Conditions)
			}
			ended := s.ContainerStatuses[0].State.Terminated.FinishedAt.Sub(begin)
			if ended < after || ended > after+2*time.Second {
				t.Errorf("%s ended after %s, want %s", name, ended, after)
			}
		}
		a.phase("done", corev1.PodSucceeded)
		if s := a.get("done").Status; s.Reason != "" {
			t.Errorf("a completed pod has the reason %s", s.Reason)
		}
		a.create("late", "u6", "Always", nil, "sleep", "infinity")
		time.Sleep(time.Second)
		a.phase("late", corev1.PodFailed)
		if s := a.get("late").Status; s.Reason != "NodeShutdown" ||
			s.Message != "Pod was rejected: Pod was rejected as the node is shutting down." {
			t.Errorf("late: %s: %s", s.Reason, s.Message)
		}
	})
}

// TestShutdownOfNothing does not wait.
func TestShutdownOfNothing(t *testing.T) {
	each(t, sim.Config{}, func(t *testing.T, a *api) {
		begin := time.Now()
		a.engine.Shutdown(context.Background(), time.Minute, 0)
		if took := time.Since(begin); took > 0 {
			t.Errorf("it took %s", took)
		}
	})
}
