package statusmgr

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestIllegalStatusIsRefusedAndThePreviousStays(t *testing.T) {
	bubble(t, func(h *harness) {
		pod := testPod("p", "u1")
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		pod = h.api.put(pod)
		h.SetStatus(pod, ended(corev1.PodRunning))
		h.settle()
		illegal := running()
		illegal.PodIP = "10.6.6.6"
		h.SetStatus(pod, illegal)
		h.settle()
		h.expect(1, 0, 0)
		if s, _ := h.Status("u1"); s.PodIP == "10.6.6.6" || s.ContainerStatuses[0].State.Terminated == nil {
			t.Errorf("the refused status is held: %+v", s)
		}
	})
}

// One that is left out of a status could come back in the next.
func TestTerminatedContainerIsNotLost(t *testing.T) {
	bubble(t, func(h *harness) {
		pod := testPod("p", "u1")
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		pod = h.api.put(pod)
		h.SetStatus(pod, ended(corev1.PodRunning))
		without := ended(corev1.PodRunning)
		without.ContainerStatuses = without.ContainerStatuses[1:]
		h.SetStatus(pod, without)
		h.SetStatus(pod, running())
		h.settle()
		got := h.api.pod("p").Status.ContainerStatuses
		if len(got) != 2 || got[0].Name != "a" || got[0].State.Terminated == nil {
			t.Errorf("container statuses %+v", got)
		}
	})
}

// The status was made from an object older than the API's: what the process
// before this one wrote is found out by the API's refusal.
func TestStatusFromAStaleObjectIsRefused(t *testing.T) {
	bubble(t, func(h *harness) {
		pod := testPod("p", "u1")
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		pod = h.api.put(pod)
		h.api.update("p", func(p *corev1.Pod) { p.Status.ContainerStatuses = ended("").ContainerStatuses })
		h.api.before = func(c call) error {
			if c.verb == "patch" {
				return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p", nil)
			}
			return nil
		}
		h.SetStatus(pod, running())
		h.pass(time.Minute)
		h.expect(1, 0, 1)
		if _, ok := h.Status("u1"); ok {
			t.Error("an illegal status is still wanted")
		}
		h.SetStatus(pod, running()) // the same again is refused by what is known now
		h.pass(time.Minute)
		h.expect(1, 0, 1)
	})
}
