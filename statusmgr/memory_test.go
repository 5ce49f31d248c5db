package statusmgr

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// What the API holds already is in memory once, whichever object of the API is
// the newest.
func TestStatusThatTheAPIHoldsIsKeptOnce(t *testing.T) {
	bubble(t, func(h *harness) {
		shared := func() bool {
			h.Manager.mu.Lock()
			defer h.Manager.mu.Unlock()
			e := h.entries["u1"]
			return e.want == &e.api.Status
		}
		pod := testPod("p", "u1")
		pod.Status.Conditions = nil // of others, the wanted status has none
		pod = h.api.put(pod)
		s := running()
		s.QOSClass = corev1.PodQOSBestEffort
		h.api.before = func(call) error {
			if shared() {
				t.Error("what is still to be written is taken for what the API holds")
			}
			return nil
		}
		h.SetStatus(pod, s)
		h.settle()
		if !shared() {
			t.Error("not shared after the write")
		}
		h.Observe(h.api.pod("p"))
		h.Observe(h.api.update("p", func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }))
		h.settle()
		if !shared() {
			t.Error("not shared with a newer object of the same status")
		}
		h.Observe(h.api.update("p", func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionFalse }))
		h.settle()
		if c := findCondition(h.api.pod("p").Status.Conditions, corev1.PodReady); c.Status != corev1.ConditionTrue {
			t.Error("the flipped condition was not written again")
		}
	})
}
