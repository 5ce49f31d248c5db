package statusmgr

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The containers of a deleted pod end a moment before its sandbox: one write tells both.
func TestEndsOfContainersWaitForThatOfTheSandbox(t *testing.T) {
	for name, tt := range map[string]struct {
		sandbox time.Duration // ends so long after the containers
		writes  int
	}{
		"at once": {0, 2}, "soon": {calmFirst / 2, 2}, "late": {2 * calmFirst, 3},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				h.SetStatus(h.api.put(testPod("p", "u1")), running())
				h.settle()
				pod := h.api.update("p", deleting)
				h.Observe(pod)
				h.containersMayRun("u1", true)
				h.SetStatus(pod, ended(corev1.PodFailed))
				h.pass(tt.sandbox)
				held := h.api.pod("p").Status
				if told := held.ContainerStatuses[0].State.Terminated != nil; told != (tt.writes == 3) {
					t.Errorf("the containers' ends are told: %t", told)
				}
				if held.Phase != corev1.PodRunning {
					t.Errorf("phase %s while a container may run", held.Phase)
				}
				h.containersMayRun("u1", false)
				h.SetStatus(pod, ended(corev1.PodFailed))
				h.settle()
				got := h.api.pod("p").Status
				if got.Phase != corev1.PodFailed || got.ContainerStatuses[0].State.Terminated == nil {
					t.Errorf("the end is not told: %+v", got)
				}
				h.expect(tt.writes, 0, 0)
				h.Reclaimed("u1")
				h.settle()
				h.expect(tt.writes, 1, 0)
			})
		})
	}
}

// What waits for the sandbox is written when the process ends.
func TestFlushWritesTheEndsOfContainers(t *testing.T) {
	bubble(t, func(h *harness) {
		pod := h.api.update(h.api.put(testPod("p", "u1")).Name, deleting)
		h.containersMayRun("u1", true)
		h.SetStatus(pod, ended(corev1.PodFailed))
		h.settle()
		h.stop()
		if err := h.Flush(h.t.Context()); err != nil {
			t.Error(err)
		}
		if got := h.api.pod("p").Status; len(got.ContainerStatuses) == 0 || got.Phase != corev1.PodPending {
			t.Errorf("API holds %+v", got)
		}
	})
}
