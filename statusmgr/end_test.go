package statusmgr

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Behaviour 3: a terminal phase waits until no container can run.
func TestTerminalPhaseIsHeldBack(t *testing.T) {
	bubble(t, func(h *harness) {
		pod := h.api.put(testPod("p", "u1"))
		h.SetStatus(pod, running())
		h.settle()
		h.containersMayRun("u1", true)
		s := ended(corev1.PodFailed)
		s.Reason, s.Message = "Evicted", "too much"
		s.Conditions = append(s.Conditions, condTrue(corev1.DisruptionTarget))
		h.SetStatus(pod, s)
		h.settle()
		got := h.api.pod("p").Status
		if got.Phase != corev1.PodRunning || got.Reason != "" || got.Message != "" {
			t.Errorf("phase %s %q %q while a container may run", got.Phase, got.Reason, got.Message)
		}
		if got.ContainerStatuses[0].State.Terminated == nil {
			t.Error("the container states were held back as well")
		}
		if findCondition(got.Conditions, corev1.DisruptionTarget) != nil {
			t.Error("DisruptionTarget went out before the phase it explains")
		}
		h.pass(time.Second)
		h.containersMayRun("u1", false)
		h.SetStatus(pod, s) // the engine's next word, though nothing changed
		h.settle()
		got = h.api.pod("p").Status
		if got.Phase != corev1.PodFailed || got.Reason != "Evicted" || got.Message != "too much" {
			t.Errorf("phase %s %q %q, want the wanted ones", got.Phase, got.Reason, got.Message)
		}
		if findCondition(got.Conditions, corev1.DisruptionTarget) == nil {
			t.Error("DisruptionTarget is missing")
		}
		h.expect(3, 0, 0)

		// That was the same status again, but no sign of a quarrel about it.
		h.Observe(h.api.update("p", func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }))
		h.settle()
		h.expect(4, 0, 0)
	})
}

func TestHeldBackPhaseStays(t *testing.T) {
	bubble(t, func(h *harness) {
		h.containersMayRun("u1", true)
		pod := h.api.put(testPod("p", "u1"))
		h.SetStatus(pod, ended(corev1.PodFailed))
		h.settle()
		h.SetStatus(pod, ended(corev1.PodRunning))
		if s, _ := h.Status("u1"); s.Phase != corev1.PodFailed {
			t.Errorf("the wanted phase went from Failed to %s while it was held back", s.Phase)
		}
	})
}

func TestHeldBackPhaseIsLookedAtAgain(t *testing.T) {
	bubble(t, func(h *harness) {
		h.containersMayRun("u1", true)
		h.SetStatus(h.api.put(testPod("p", "u1")), ended(corev1.PodSucceeded))
		h.settle()
		h.containersMayRun("u1", false)
		h.pass(holdRecheck)
		if p := h.api.pod("p").Status.Phase; p != corev1.PodSucceeded {
			t.Errorf("phase %s though the engine never spoke again", p)
		}
	})
}

// An equal status that comes while a look is under way, which has asked before
// it, is a reason to look again at once: nothing waits for holdRecheck.
func TestEqualStatusDuringALookIsNotLost(t *testing.T) {
	bubble(t, func(h *harness) {
		pod := h.api.put(testPod("p", "u1"))
		h.SetStatus(pod, running())
		h.settle()
		h.containersMayRun("u1", true)
		h.answered = func() {
			h.containersMayRun("u1", false)
			h.SetStatus(pod, ended(corev1.PodFailed))
		}
		h.SetStatus(pod, ended(corev1.PodFailed))
		h.settle()
		if p := h.api.pod("p").Status.Phase; p != corev1.PodFailed {
			t.Errorf("phase %s, want Failed without waiting", p)
		}
	})
}

// Behaviour 3: and takes readiness along in the same write.
func TestTerminalPhaseTakesReadinessAlong(t *testing.T) {
	for phase, reason := range map[corev1.PodPhase]string{
		corev1.PodFailed: reasonPodFailed, corev1.PodSucceeded: reasonPodCompleted,
	} {
		t.Run(string(phase), func(t *testing.T) {
			bubble(t, func(h *harness) {
				pod := h.api.put(testPod("p", "u1"))
				h.SetStatus(pod, running())
				h.pass(time.Hour)
				h.SetStatus(pod, ended(phase)) // says Ready still
				h.settle()
				h.expect(2, 0, 0) // in the same write
				got := h.api.pod("p").Status
				for _, c := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady} {
					have := findCondition(got.Conditions, c)
					if have == nil || have.Status != corev1.ConditionFalse || have.Reason != reason {
						t.Errorf("%s is %+v, want False, %s", c, have, reason)
					} else if time.Since(have.LastTransitionTime.Time) > time.Second {
						t.Errorf("%s changed at %s, want now", c, have.LastTransitionTime)
					}
				}
				h.Observe(h.api.pod("p"))
				h.SetStatus(h.api.pod("p"), ended(phase))
				h.pass(time.Minute)
				if n := h.api.count("patch"); n > 3 {
					t.Errorf("%d writes of a finished pod", n)
				}
			})
		})
	}
}

func TestTerminalPhaseIsSticky(t *testing.T) {
	for _, next := range []corev1.PodPhase{corev1.PodRunning, corev1.PodPending, corev1.PodSucceeded} {
		t.Run("to "+string(next), func(t *testing.T) {
			bubble(t, func(h *harness) {
				pod := h.api.put(testPod("p", "u1"))
				first := ended(corev1.PodFailed)
				first.Reason = "DeadlineExceeded"
				h.SetStatus(pod, first)
				h.settle()
				s := ended(next)
				s.ContainerStatuses[0].State.Terminated.ExitCode = 3 // this is still reported
				h.SetStatus(pod, s)
				h.settle()
				got := h.api.pod("p").Status
				if got.Phase != corev1.PodFailed || got.Reason != "DeadlineExceeded" {
					t.Errorf("phase %s %q, want Failed to stay", got.Phase, got.Reason)
				}
				if got.ContainerStatuses[0].State.Terminated.ExitCode != 3 {
					t.Error("a later container status was not reported")
				}
			})
		})
	}
}

// The end of a mirror pod is taken back when its static pod runs again (kubelet: a static
// pod's status is that of its own life).
func TestEndOfAMirrorPodIsTakenBack(t *testing.T) {
	bubble(t, func(h *harness) {
		pod := testPod("p", "u1")
		pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
		pod.Status = ended(corev1.PodFailed)
		pod.Status.Reason, pod.Status.Message = "Terminated", "Pod was terminated in response to imminent node shutdown."
		h.SetStatus(h.api.put(pod), running())
		h.settle()
		if got := h.api.pod("p").Status; got.Phase != corev1.PodRunning || got.Reason != "" || got.Message != "" {
			t.Errorf("phase %s %q %q, want Running", got.Phase, got.Reason, got.Message)
		}
		h.Observe(h.api.update("p", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }))
		h.pass(time.Minute)
		if got := h.api.pod("p").Status.Phase; got != corev1.PodRunning {
			t.Errorf("phase %s by somebody else's word, want Running", got)
		}
	})
}

// Somebody else (pod garbage collection) ended the pod and our cache does not
// know it yet: the patch must not turn Failed into Succeeded.
func TestUnknownTerminalPhaseIsNotOverwritten(t *testing.T) {
	bubble(t, func(h *harness) {
		pod := h.api.put(testPod("p", "u1"))
		h.SetStatus(pod, running())
		h.settle()
		h.api.update("p", func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "NodeLost" })
		h.SetStatus(pod, ended(corev1.PodSucceeded))
		h.settle()
		if s := h.api.pod("p").Status; s.Phase != corev1.PodFailed || s.Reason != "NodeLost" {
			t.Errorf("phase %s %q, want Failed to stay", s.Phase, s.Reason)
		}
		if s := h.api.pod("p").Status; s.ContainerStatuses[0].State.Terminated == nil {
			t.Error("the container states were lost")
		}
		h.expect(3, 0, 1)
	})
}

// The three things a delete waits for, and the final status, in every order.
func TestDeleteWaitsForEverythingInAnyOrder(t *testing.T) {
	steps := map[string]func(h *harness){
		"status":    func(h *harness) { h.SetStatus(h.api.pod("p"), ended(corev1.PodSucceeded)) },
		"deletion":  func(h *harness) { h.Observe(h.api.update("p", deleting)) },
		"reclaimed": func(h *harness) { h.Reclaimed("u1") },
		"stopped":   func(h *harness) { h.containersMayRun("u1", false) },
	}
	for _, order := range permutations([]string{"status", "deletion", "reclaimed", "stopped"}) {
		t.Run(strings.Join(order, " "), func(t *testing.T) {
			bubble(t, func(h *harness) {
				h.api.put(testPod("p", "u1"))
				h.containersMayRun("u1", true)
				for i, step := range order {
					if n := h.api.count("delete"); n > 0 {
						t.Fatalf("deleted before %s", strings.Join(order[i:], ", "))
					}
					steps[step](h)
					h.settle()
				}
				h.pass(holdRecheck)
				if h.api.pod("p") != nil {
					t.Fatal("the pod was not deleted")
				}
				if n := h.api.count("delete"); n != 1 {
					t.Errorf("%d deletes", n)
				}
				h.pass(time.Hour)
				if n := h.api.count("delete"); n != 1 {
					t.Errorf("%d deletes in the end", n)
				}
				h.Forget("u1")
				h.empty()
			})
		})
	}
}

func permutations(in []string) [][]string {
	if len(in) == 0 {
		return [][]string{nil}
	}
	var out [][]string
	for i := range in {
		rest := append(append([]string{}, in[:i]...), in[i+1:]...)
		for _, p := range permutations(rest) {
			out = append(out, append([]string{in[i]}, p...))
		}
	}
	return out
}

// With the containers' end known the delete follows the last word at once.
func TestDeleteWaitsForNoTicker(t *testing.T) {
	bubble(t, func(h *harness) {
		h.SetStatus(h.api.put(testPod("p", "u1")), running())
		h.Observe(h.api.update("p", deleting))
		h.settle()
		start := time.Now()
		h.SetStatus(h.api.pod("p"), ended(corev1.PodFailed))
		h.Reclaimed("u1")
		h.settle()
		if h.api.pod("p") != nil || time.Since(start) != 0 {
			t.Errorf("not deleted at once (%s passed)", time.Since(start))
		}
		if n := h.api.count("patch"); n > 3 {
			t.Errorf("%d writes", n)
		}
	})
}

// Behaviour 3: the pod is deleted only after the API shows how it ended.
func TestTerminalStatusIsWrittenBeforeDelete(t *testing.T) {
	bubble(t, func(h *harness) {
		h.api.put(testPod("p", "u1"))
		pod := h.api.update("p", deleting)
		var failing atomic.Bool
		failing.Store(true)
		h.api.before = func(c call) error {
			if failing.Load() && c.verb == "patch" {
				return apierrors.NewServiceUnavailable("starting")
			}
			return nil
		}
		h.SetStatus(pod, ended(corev1.PodSucceeded))
		h.Reclaimed("u1")
		h.pass(time.Minute)
		if n := h.api.count("delete"); n != 0 {
			t.Fatal("deleted though the terminal status was never written")
		}
		failing.Store(false)
		h.pass(20 * time.Second)
		if h.api.pod("p") != nil {
			t.Error("not deleted after the status was written")
		}
	})
}

func TestNonTerminalPodIsNotDeleted(t *testing.T) {
	bubble(t, func(h *harness) {
		h.api.put(testPod("p", "u1"))
		h.SetStatus(h.api.update("p", deleting), running())
		h.Reclaimed("u1")
		h.pass(time.Minute)
		h.expect(1, 0, 0)
	})
}

// A status that came during the last write goes out before the delete.
func TestNewestStatusIsWrittenBeforeDelete(t *testing.T) {
	bubble(t, func(h *harness) {
		h.api.put(testPod("p", "u1"))
		pod := h.api.update("p", deleting)
		h.api.delay = time.Second
		h.SetStatus(pod, ended(corev1.PodFailed))
		h.Reclaimed("u1")
		h.settle()
		late := ended(corev1.PodFailed)
		late.ContainerStatuses[1].State.Terminated.ExitCode = 7
		h.SetStatus(pod, late)
		h.pass(1500 * time.Millisecond)
		h.expect(2, 0, 0)
		h.pass(time.Minute)
		h.expect(2, 1, 0)
	})
}

// Others may end a pod whose containers still run (pod garbage collection, an
// eviction); it stays until they have ended.
func TestPodEndedByOthersIsNotDeletedWhileItMayRun(t *testing.T) {
	bubble(t, func(h *harness) {
		h.containersMayRun("u1", true)
		pod := testPod("p", "u1")
		pod.Status.Phase = corev1.PodFailed
		h.api.put(pod)
		h.SetStatus(h.api.update("p", deleting), running())
		h.Reclaimed("u1")
		h.pass(time.Minute)
		h.expect(1, 0, 0)
		h.containersMayRun("u1", false)
		h.pass(holdRecheck)
		h.expect(1, 1, 0)
	})
}

// The phase is terminal already, but the last exit codes are not written yet.
func TestDeleteWaitsForTheLastWriteOfAnEndedPod(t *testing.T) {
	bubble(t, func(h *harness) {
		pod := testPod("p", "u1")
		pod.Status.Phase = corev1.PodFailed
		h.api.put(pod)
		var failing atomic.Bool
		failing.Store(true)
		h.api.before = func(c call) error {
			if failing.Load() && c.verb == "patch" {
				return errors.New("down")
			}
			return nil
		}
		h.SetStatus(h.api.update("p", deleting), ended(corev1.PodFailed))
		h.Reclaimed("u1")
		h.pass(time.Minute)
		if n := h.api.count("delete"); n != 0 {
			t.Fatal("deleted before the last status was written")
		}
		failing.Store(false)
		h.pass(20 * time.Second)
		if h.api.pod("p") != nil {
			t.Error("not deleted afterwards")
		}
	})
}

func TestDeletable(t *testing.T) {
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := testPod("p", "u1")
		deleting(p)
		p.Status.Phase = corev1.PodSucceeded
		if change != nil {
			change(p)
		}
		return p
	}
	finalized := func(p *corev1.Pod) { p.Finalizers = []string{"x"} }
	ready := job{reclaimed: true}
	cases := []struct {
		name string
		api  *corev1.Pod
		job  job
		want bool
	}{
		{"ready", pod(nil), ready, true},
		{"without a grace", pod(func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = nil }), ready, true},
		{"with a finalizer", pod(finalized), ready, true},
		{
			"grace 0, left over by a failed delete", pod(func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = new(int64) }),
			ready, true,
		},
		{"grace 0, left over, phase not terminal", pod(func(p *corev1.Pod) {
			p.DeletionGracePeriodSeconds, p.Status.Phase = new(int64), corev1.PodRunning
		}), ready, true},
		{"not being deleted", pod(func(p *corev1.Pod) { p.DeletionTimestamp = nil }), ready, false},
		{"phase not terminal", pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }), ready, false},
		{"not reclaimed", pod(nil), job{}, false},
		{"deleted before", pod(nil), job{reclaimed: true, deleted: true}, false},
		{"accepted before, a finalizer keeps it", pod(func(p *corev1.Pod) {
			finalized(p)
			p.DeletionGracePeriodSeconds = new(int64)
		}), ready, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := deletable(c.api, c.job); got != c.want {
				t.Errorf("deletable %v, want %v", got, c.want)
			}
		})
	}
}

// What comes during an attempt is looked at after it, however long the wait
// would have been had the attempt failed.
func TestReclaimedDuringALateAttempt(t *testing.T) {
	bubble(t, func(h *harness) {
		var bad atomic.Bool
		bad.Store(true)
		h.api.before = func(c call) error {
			if bad.Load() && c.verb == "patch" {
				return apierrors.NewBadRequest("no")
			}
			return nil
		}
		h.api.put(testPod("p", "u1"))
		pod := h.api.update("p", deleting)
		h.SetStatus(pod, ended(corev1.PodFailed))
		h.pass(10 * time.Minute)
		bad.Store(false)
		h.api.mu.Lock()
		h.api.delay = time.Second
		h.api.mu.Unlock()
		late := ended(corev1.PodFailed)
		late.Message = "other"
		h.SetStatus(pod, late)
		h.settle()
		h.Reclaimed("u1")
		h.pass(3 * time.Second)
		if h.api.pod("p") != nil {
			t.Error("not deleted right after the write")
		}
	})
}

// After a restart nothing may be left to say about a pod that ended before.
func TestDeleteWithoutAWantedStatus(t *testing.T) {
	bubble(t, func(h *harness) {
		pod := testPod("p", "u1")
		pod.Status.Phase = corev1.PodSucceeded
		h.api.put(pod)
		h.Reclaimed("u1") // before anything was heard of the pod
		h.Observe(h.api.update("p", deleting))
		h.settle()
		h.expect(0, 1, 0)
	})
}

func TestFinalizedPodIsDeletedOnlyOnce(t *testing.T) {
	bubble(t, func(h *harness) {
		pod := testPod("p", "u1")
		pod.Finalizers = []string{"example.com/keep"}
		h.api.watch = func(p *corev1.Pod) { go h.Observe(p) }
		h.api.put(pod)
		pod = h.api.update("p", deleting)
		h.SetStatus(pod, ended(corev1.PodFailed))
		h.Reclaimed("u1")
		h.pass(time.Minute)
		h.expect(1, 1, 0)
		for range 10 { // it lives on, and others write to it
			h.api.update("p", func(p *corev1.Pod) { p.Annotations = map[string]string{"at": time.Now().String()} })
			h.pass(time.Minute)
		}
		h.expect(1, 1, 0)
		late := ended(corev1.PodFailed)
		late.ContainerStatuses[0].State.Terminated.ExitCode = 9
		h.SetStatus(h.api.pod("p"), late)
		h.settle()
		h.expect(2, 1, 0) // its status is still kept right
	})
	t.Run("after a restart", func(t *testing.T) {
		bubble(t, func(h *harness) {
			pod := testPod("p", "u1")
			pod.Finalizers = []string{"example.com/keep"}
			pod.Status.Phase = corev1.PodFailed
			deleting(pod)
			pod.DeletionGracePeriodSeconds = new(int64)
			h.Observe(h.api.put(pod))
			h.Reclaimed("u1")
			h.pass(time.Hour)
			h.expect(0, 0, 0)
		})
	})
}

func TestDeleteIsTriedAgain(t *testing.T) {
	gone := func(h *harness) { h.api.remove("p") }
	replaced := func(h *harness) { h.api.remove("p"); h.api.put(testPod("p", "u2")) }
	cases := []struct {
		name    string
		failure error
		then    func(h *harness)
		after   bool // the call had its effect, the reply was lost
		deletes int
		// unreadable says that the pod is Forbidden when it is read first.
		unreadable bool
	}{
		{name: "unavailable", failure: apierrors.NewServiceUnavailable("x"), deletes: 2},
		{name: "transport", failure: errors.New("reset"), deletes: 2},
		{name: "lost reply", failure: errors.New("reset"), after: true, deletes: 2},
		{
			name: "conflict of the same pod", failure: apierrors.NewConflict(podResource, "p", errors.New("modified")),
			deletes: 2,
		},
		// NodeRestriction asks its own informer, which a new API server has not filled.
		{
			name: "not found by an API server that knows no pods yet", failure: apierrors.NewNotFound(podResource, "p"),
			deletes: 2,
		},
		{name: "gone", then: gone, deletes: 1},
		{name: "gone, and not to be read", then: gone, unreadable: true, deletes: 2},
		{name: "replaced", then: replaced, deletes: 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				once := false
				refused := false
				hook := func(k call) error {
					if k.verb == "list" && c.unreadable && !refused {
						refused = true
						return apierrors.NewForbidden(podResource, "p", errors.New("no relationship found"))
					}
					if k.verb != "delete" || once {
						return nil
					}
					once = true
					if c.then != nil {
						c.then(h)
					}
					return c.failure
				}
				if c.after {
					h.api.after = hook
				} else {
					h.api.before = hook
				}
				h.api.put(testPod("p", "u1"))
				h.SetStatus(h.api.update("p", deleting), ended(corev1.PodFailed))
				h.Reclaimed("u1")
				h.pass(time.Minute)
				if n := h.api.count("delete"); n != c.deletes {
					t.Errorf("%d deletes, want %d", n, c.deletes)
				}
				if p := h.api.pod("p"); p != nil && p.UID == "u1" {
					t.Error("the pod is still there")
				}
				if c.name == "replaced" && h.api.pod("p") == nil {
					t.Error("the successor was deleted")
				}
			})
		})
	}
}

func TestLateStatusAfterDeleteCostsNothing(t *testing.T) {
	bubble(t, func(h *harness) {
		h.api.put(testPod("p", "u1"))
		pod := h.api.update("p", deleting)
		h.SetStatus(pod, ended(corev1.PodFailed))
		h.Reclaimed("u1")
		h.settle()
		h.expect(1, 1, 0)
		late := ended(corev1.PodFailed)
		late.Message = "late"
		h.SetStatus(pod, late)
		h.pass(time.Minute)
		h.expect(1, 1, 0)
	})
}
