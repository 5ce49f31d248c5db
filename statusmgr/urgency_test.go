package statusmgr

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func creating(message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating", Message: message}}
}

// starting is the status of testPod before any of its containers was made.
func starting() corev1.PodStatus {
	return corev1.PodStatus{
		Phase: corev1.PodPending,
		Conditions: []corev1.PodCondition{
			condTrue(corev1.PodInitialized),
			{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady", Message: "[a b]"},
			{Type: corev1.ContainersReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady", Message: "[a b]"},
		},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "a", State: creating("")}, {Name: "b", State: creating("")}},
	}
}

func TestWhatSomebodyActsOnIsUrgent(t *testing.T) {
	gate := corev1.PodConditionType("example.test/gate")
	steps := func(s *corev1.PodStatus) {
		s.PodIP, s.HostIP, s.ObservedGeneration = "10.0.0.1", "192.0.2.1", 2
		s.Conditions = append(s.Conditions, condTrue(corev1.PodReadyToStartContainers), condTrue(corev1.PodScheduled))
		for i := range s.Conditions {
			s.Conditions[i].ObservedGeneration = 2
		}
	}
	tests := map[string]struct {
		held   corev1.PodStatus
		change func(s *corev1.PodStatus)
		want   bool
	}{
		"nothing":                      {starting(), func(*corev1.PodStatus) {}, false},
		"address and steps of a start": {starting(), steps, false},
		"steps of a pod that runs":     {running(), func(s *corev1.PodStatus) { s.ObservedGeneration = 2 }, false},
		"which container is not ready": {starting(), func(s *corev1.PodStatus) { s.Conditions[1].Message = "[b]" }, false},
		"address of a ready pod":       {running(), func(s *corev1.PodStatus) { s.PodIP = "10.0.0.2" }, true},
		"phase":                        {running(), func(s *corev1.PodStatus) { s.Phase = corev1.PodSucceeded }, true},
		"back to Pending":              {running(), func(s *corev1.PodStatus) { s.Phase = corev1.PodPending }, true},
		"reason":                       {running(), func(s *corev1.PodStatus) { s.Reason = "Evicted" }, true},
		"message":                      {running(), func(s *corev1.PodStatus) { s.Message = "why" }, true},
		"readiness": {
			running(), func(s *corev1.PodStatus) { s.Conditions[1].Status = corev1.ConditionFalse }, true,
		},
		"readiness taken back": {running(), func(s *corev1.PodStatus) { s.Conditions = s.Conditions[:1] }, true},
		"a condition of another kind": {
			running(), func(s *corev1.PodStatus) { s.Conditions = append(s.Conditions, condTrue(gate)) }, true,
		},
		"a resize that is pending": {
			running(), func(s *corev1.PodStatus) { s.Conditions = append(s.Conditions, condTrue(corev1.PodResizePending)) },
			true,
		},
		"a container that started": {
			starting(), func(s *corev1.PodStatus) { s.ContainerStatuses[0] = running().ContainerStatuses[0] }, true,
		},
		"a container that ended": {
			running(), func(s *corev1.PodStatus) { s.ContainerStatuses[0].State = exited(1) }, true,
		},
		"a container that is back": {
			running(), func(s *corev1.PodStatus) { s.ContainerStatuses[0].RestartCount = 1 }, true,
		},
		"why a container waits": {
			starting(), func(s *corev1.PodStatus) { s.ContainerStatuses[0].State.Waiting.Reason = "ErrImagePull" }, true,
		},
		"what a container waits for": {
			starting(), func(s *corev1.PodStatus) { s.ContainerStatuses[0].State = creating("no volume") }, true,
		},
		"a container that begins anew": {
			running(), func(s *corev1.PodStatus) { s.ContainerStatuses[0].State = creating("") }, true,
		},
		"a container that is there more": {
			running(), func(s *corev1.PodStatus) { s.ContainerStatuses = s.ContainerStatuses[:1] }, true,
		},
		"an init container that ended": {starting(), func(s *corev1.PodStatus) {
			s.InitContainerStatuses = []corev1.ContainerStatus{{Name: "i", State: exited(0)}}
		}, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			want := *tc.held.DeepCopy()
			tc.change(&want)
			if got := matters(&tc.held, &want); got != tc.want {
				t.Errorf("matters = %v, want %v", got, tc.want)
			}
		})
	}
	first := starting()
	if matters(&corev1.PodStatus{Phase: corev1.PodPending}, &first) {
		t.Error("the first status of a pod that starts is urgent")
	}
}

func TestStartIsOneWrite(t *testing.T) {
	bubble(t, func(h *harness) {
		pod := h.api.put(testPod("p", "u1"))
		h.SetStatus(pod, starting())
		h.pass(calmFirst / 2)
		s := starting()
		s.PodIP = "10.0.0.1"
		h.SetStatus(pod, s)
		h.pass(calmFirst / 4)
		h.expect(0, 0, 0)
		h.SetStatus(pod, running())
		h.settle() // what matters waits no longer
		h.expect(1, 0, 0)
		h.pass(time.Minute)
		h.expect(1, 0, 0)
	})
}

func TestStepsWaitForABoundedTime(t *testing.T) {
	bubble(t, func(h *harness) {
		pod := h.api.put(testPod("p", "u1"))
		last := 0
		step := func(n int, every time.Duration) {
			for range n {
				last++
				s := starting()
				s.PodIP = fmt.Sprintf("10.0.0.%d", last)
				h.SetStatus(pod, s)
				h.pass(every)
			}
		}
		step(10, calmFirst/10) // those after the first do not put it off
		h.expect(1, 0, 0)
		h.Observe(h.api.pod("p"))
		step(1, calmLater-time.Millisecond)
		h.expect(1, 0, 0)
		h.pass(time.Millisecond)
		h.expect(2, 0, 0)
	})
}

func TestDeletionAloneIsNotWritten(t *testing.T) {
	bubble(t, func(h *harness) {
		pod := h.api.put(testPod("p", "u1"))
		h.SetStatus(pod, running())
		h.settle()
		h.containersMayRun("u1", true)
		pod = h.api.update("p", deleting)
		h.Observe(pod)
		h.SetStatus(pod, running()) // of the next generation
		h.settle()
		h.expect(1, 0, 0)
		h.containersMayRun("u1", false)
		h.SetStatus(pod, ended(corev1.PodSucceeded))
		h.settle()
		h.expect(2, 0, 0)
		if g := h.api.pod("p").Status.ObservedGeneration; g != pod.Generation {
			t.Errorf("observedGeneration %d, want %d", g, pod.Generation)
		}
	})
}

func TestNothingIsSaidOfAPodThatIsDeletedRightAfter(t *testing.T) {
	bubble(t, func(h *harness) {
		up := running()
		up.Conditions = append(up.Conditions, condTrue(corev1.PodReadyToStartContainers))
		h.SetStatus(h.api.put(testPod("p", "u1")), up)
		h.settle()
		pod := h.api.update("p", deleting)
		over := ended(corev1.PodSucceeded)
		over.Conditions = append(over.Conditions, condTrue(corev1.PodReadyToStartContainers))
		for i := 1; i <= 2; i++ { // as of an engine: who is over is not ready
			over.Conditions[i].Status = corev1.ConditionFalse
		}
		h.SetStatus(pod, over)
		h.settle()
		h.expect(2, 0, 0)
		over.Conditions[3].Status = corev1.ConditionFalse // the sandbox went
		h.SetStatus(pod, over)
		h.Reclaimed("u1")
		h.settle()
		h.expect(2, 1, 0)
	})
}

func TestFlushDoesNotWaitForABetterStatus(t *testing.T) {
	bubble(t, func(h *harness) {
		pod := h.api.put(testPod("p", "u1"))
		h.SetStatus(pod, starting())
		h.settle()
		h.stop()
		start := time.Now()
		if err := h.Flush(h.t.Context()); err != nil {
			t.Fatal(err)
		}
		h.expect(1, 0, 0)
		if waited := time.Since(start); waited != 0 {
			t.Errorf("flushed after %s, want at once", waited)
		}
	})
}
