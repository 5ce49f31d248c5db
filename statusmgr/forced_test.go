package statusmgr

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The API server deletes by force in two steps, and an update between them makes
// it delete the name once more, whoever holds it by then.
func TestStatusOfAForcedPodSparesTheSuccessor(t *testing.T) {
	for name, observed := range map[string]bool{"the first step was seen": true, "the first step was not seen": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				old := h.api.put(testPod("p", "u1"))
				replace := sync.OnceFunc(func() { h.api.store(testPod("p", "u2")) }) // the second step, and a successor
				h.api.meanwhile = replace
				now := h.api.update("p", forced)
				if observed {
					h.Observe(now)
				}
				h.SetStatus(old, running())
				h.settle()
				h.api.mu.Lock()
				replace()
				h.api.mu.Unlock()
				h.pass(time.Minute)
				if got := h.api.pod("p"); got == nil || got.UID != "u2" || got.Status.Phase != corev1.PodPending {
					t.Errorf("the successor is %+v", got)
				}
				if p := h.api.count("patch"); observed && p > 0 {
					t.Errorf("%d patches of a pod that only its delete is left of", p)
				}
				h.Forget("u1")
				h.empty()
			})
		})
	}
	t.Run("one that a finalizer keeps is written", func(t *testing.T) {
		bubble(t, func(h *harness) {
			h.api.put(testPod("p", "u1"))
			h.SetStatus(h.api.update("p", func(p *corev1.Pod) {
				forced(p)
				p.Finalizers = []string{"example.com/keep"}
			}), ended(corev1.PodFailed))
			h.settle()
			h.expect(1, 0, 0)
			if got := h.api.pod("p"); got == nil || got.Status.Phase != corev1.PodFailed {
				t.Errorf("API holds %+v", got)
			}
		})
	})
}

// An API server that ended between the two steps leaves the pod: it is deleted
// once nothing of it runs, and nothing is written to it before.
func TestLeftoverOfAForcedDeleteIsDeleted(t *testing.T) {
	bubble(t, func(h *harness) {
		h.api.put(testPod("p", "u1"))
		h.containersMayRun("u1", true)
		pod := h.api.update("p", forced)
		h.SetStatus(pod, running())
		h.SetStatus(pod, ended(corev1.PodFailed))
		h.pass(time.Minute)
		h.Reclaimed("u1")
		h.pass(time.Minute)
		h.expect(0, 0, 0)
		h.containersMayRun("u1", false)
		h.pass(holdRecheck)
		h.expect(0, 1, 0)
		if got := h.api.pod("p"); got != nil {
			t.Errorf("API holds %+v", got)
		}
		h.Forget("u1")
		h.empty()
	})
}

// The informer may show the first step of a delete that the API server is about
// to finish: that needs no second delete.
func TestForcedDeleteIsLeftToTheAPI(t *testing.T) {
	for _, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodFailed} {
		t.Run(string(phase), func(t *testing.T) {
			bubble(t, func(h *harness) {
				pod := testPod("p", "u1")
				pod.Status.Phase = phase
				h.api.put(pod)
				h.Reclaimed("u1")
				h.Observe(h.api.update("p", forced))
				h.pass(time.Second)
				h.api.remove("p")
				h.Forget("u1")
				h.pass(time.Minute)
				h.expect(0, 0, 0)
				h.empty()
			})
		})
	}
}

// The same on a real API server, where the moment between the two steps has to be
// met by chance: without the resourceVersion some ten rounds do.
func TestRealForcedDeleteSparesTheSuccessor(t *testing.T) {
	r := newReal(t)
	r.follow("forced")
	model := r.create("forced", nil) // and removed with the test
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "forced"}, Spec: model.Spec}
	for round := range 300 {
		old := r.get("forced")
		stop := r.chatter(old)
		if err := r.admin.Delete(t.Context(), "forced", *metav1.NewDeleteOptions(0)); err != nil {
			t.Fatal(err)
		}
		next, err := r.admin.Create(t.Context(), pod, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		stop()
		r.Forget(old.UID)
		r.idle()
		if got := r.get("forced"); got == nil || got.UID != next.UID {
			t.Fatalf("round %d: the successor %s is gone, the API holds %v", round, next.UID, got)
		}
	}
}

// chatter has a new status to report all the time until it is stopped.
func (r *realAPI) chatter(pod *corev1.Pod) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := int32(0); ctx.Err() == nil; n++ {
			s := realStatus(running)
			s.ContainerStatuses[0].RestartCount = n
			r.SetStatus(pod, s)
			if n == 0 {
				close(started)
			}
			time.Sleep(time.Millisecond)
		}
	}()
	<-started
	return func() { cancel(); <-ended }
}
