package syncloop_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
)

// running is how many containers of a pod run.
func (a *api) running(uid string) (n int) {
	for _, f := range a.remote.Facts() {
		for _, c := range f.Containers {
			if string(f.UID) == uid && c.State() == backend.Running {
				n++
			}
		}
	}
	return n
}

// Whoever ends a pod in the API (the pod garbage collector does, of a node that was out of
// service) ends its containers: its controller has replaced it by then.
func TestTerminalPhaseOfSomebodyElse(t *testing.T) {
	each(t, sim.Config{}, func(t *testing.T, a *api) {
		a.create("runs", "r", "Always", nil, "sh", "-c", "trap '' TERM; sleep infinity")
		a.create("crashes", "c", "Always", nil, "false")
		a.create("waits", "w", "Always", func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "registry.test/missing:1" })
		time.Sleep(15 * time.Second)
		for _, name := range []string{"runs", "crashes", "waits"} {
			a.update(name, func(pod *corev1.Pod) {
				a.endedByOthers[pod.UID] = true
				pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, "NodeLost", "by somebody else"
			})
		}
		time.Sleep(20 * time.Second)
		if n := a.running("r"); n != 1 {
			t.Errorf("%d containers run within the grace, want 1", n)
		}
		time.Sleep(15 * time.Second)
		for _, uid := range []string{"r", "c", "w"} {
			if n := a.running(uid); n != 0 {
				t.Errorf("%d containers of %s run after the grace", n, uid)
			}
		}
		launches := a.remote.Audit().Launches["c"]
		time.Sleep(10 * time.Minute)
		if n := a.remote.Audit().Launches["c"]; n != launches {
			t.Errorf("a pod that has ended was launched again: %d, then %d", launches, n)
		}
		for _, name := range []string{"runs", "crashes", "waits"} {
			a.phase(name, corev1.PodFailed)
			s := a.get(name).Status
			if s.Reason != "NodeLost" || s.Message != "by somebody else" {
				t.Errorf("%s: reason %q, message %q", name, s.Reason, s.Message)
			}
			for _, c := range s.Conditions {
				if c.Type == corev1.PodReady && (c.Status != corev1.ConditionFalse || c.Reason != "PodFailed") {
					t.Errorf("%s: %+v", name, c)
				}
			}
			a.delete(name, 30)
		}
		time.Sleep(10 * time.Second)
		if n := a.remotePods(); n != 0 {
			t.Errorf("%d attempts are left", n)
		}
	})
}
