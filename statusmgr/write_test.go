package statusmgr

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestStatusIsWrittenAtOnce(t *testing.T) {
	bubble(t, func(h *harness) {
		pod := h.api.put(testPod("p", "u1"))
		start := time.Now()
		h.SetStatus(pod, running())
		h.settle()
		if waited := time.Since(start); waited != 0 {
			t.Errorf("written after %s, want at once", waited)
		}
		h.expect(1, 0, 0)
		got := h.api.pod("p")
		if got.Status.Phase != corev1.PodRunning || got.Status.PodIP != "10.0.0.1" {
			t.Errorf("API holds %+v", got.Status)
		}
		if !strings.Contains(h.api.lastPatch(), `"uid":"u1"`) {
			t.Errorf("patch without UID: %s", h.api.lastPatch())
		}
		if n := testutil.CollectAndCount(h.metrics.sync); n != 1 {
			t.Errorf("sync duration has %d series, want 1", n)
		}
		if n := testutil.ToFloat64(h.metrics.writes.WithLabelValues(resultWritten)); n != 1 {
			t.Errorf("written = %v, want 1", n)
		}
	})
}

func TestLatestStatusWins(t *testing.T) {
	bubble(t, func(h *harness) {
		h.api.delay = time.Second
		pod := h.api.put(testPod("p", "u1"))
		h.SetStatus(pod, running())
		h.settle() // the first write is under way
		for _, ip := range []string{"10.0.0.2", "10.0.0.3", "10.0.0.4"} {
			s := running()
			s.PodIP = ip
			h.SetStatus(pod, s)
		}
		h.pass(5 * time.Second)
		if ip := h.api.pod("p").Status.PodIP; ip != "10.0.0.4" {
			t.Errorf("API holds podIP %s, want the last", ip)
		}
		h.expect(2, 0, 0) // those between were never sent
		if sum := syncSeconds(h); sum != 2 {
			t.Errorf("sync took %v s, want the 2 from the first status to the last write", sum)
		}
	})
}

// syncSeconds is the sum of the sync durations so far.
func syncSeconds(h *harness) (sum float64) {
	families, err := h.reg.Gather()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "kubelet_pod_status_sync_duration_seconds" {
			sum = f.GetMetric()[0].GetHistogram().GetSampleSum()
		}
	}
	return sum
}

func TestWritersAreBounded(t *testing.T) {
	bubbleWith(t, Config{Writers: 3}, func(h *harness) {
		h.api.delay = time.Second
		const pods = 20
		for i := range pods {
			name := string(rune('a' + i))
			h.SetStatus(h.api.put(testPod(name, types.UID(name))), running())
		}
		h.pass(time.Minute)
		h.expect(pods, 0, 0)
		if h.api.peak != 3 {
			t.Errorf("%d writes at once, want 3", h.api.peak)
		}
	})
}

func TestFailedWriteIsTriedAgainWithTheNewest(t *testing.T) {
	cases := map[string]error{
		"conflict":       apierrors.NewConflict(podResource, "p", errors.New("modified")),
		"timeout":        apierrors.NewTimeoutError("slow", 0),
		"server timeout": apierrors.NewServerTimeout(podResource, "patch", 0),
		"throttled":      apierrors.NewTooManyRequestsError("slow down"),
		"internal":       apierrors.NewInternalError(errors.New("boom")),
		"unavailable":    apierrors.NewServiceUnavailable("starting"),
		"forbidden":      apierrors.NewForbidden(podResource, "p", errors.New("graph not filled")),
		"transport":      errors.New("connection refused"),
		"deadline":       context.DeadlineExceeded,
	}
	for name, failure := range cases {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				var failing atomic.Bool
				failing.Store(true)
				h.api.before = func(c call) error {
					if failing.Load() && c.verb == "patch" {
						return failure
					}
					return nil
				}
				pod := h.api.put(testPod("p", "u1"))
				h.SetStatus(pod, running())
				h.pass(time.Minute)
				attempts := h.api.count("patch")
				// 100 ms doubling to 10 s: about 7 within the first 10 s, then 5.
				if attempts < 8 || attempts > 20 {
					t.Errorf("%d attempts in a minute of failure, want about 12", attempts)
				}
				newest := running()
				newest.PodIP = "10.9.9.9"
				h.SetStatus(pod, newest)
				h.settle()
				failing.Store(false)
				h.pass(15 * time.Second)
				if ip := h.api.pod("p").Status.PodIP; ip != newest.PodIP {
					t.Errorf("API holds podIP %q, want the newest", ip)
				}
			})
		})
	}
}

func TestBackoffIsNotCutShortByNewStatuses(t *testing.T) {
	bubble(t, func(h *harness) {
		h.api.delay = 150 * time.Millisecond // so that news comes during attempts too
		h.api.before = func(call) error { return apierrors.NewInternalError(errors.New("down")) }
		pod := h.api.put(testPod("p", "u1"))
		for i := range 600 { // a minute of an engine that has news all the time
			s := running()
			s.ContainerStatuses[0].RestartCount = int32(i)
			h.SetStatus(pod, s)
			h.pass(100 * time.Millisecond)
		}
		if n := h.api.count("patch"); n > 20 {
			t.Errorf("%d attempts in a minute against a failing API", n)
		}
	})
}

func TestRetryAfterIsHonoured(t *testing.T) {
	bubble(t, func(h *harness) {
		tooMany := apierrors.NewTooManyRequests("later", 30)
		h.api.before = func(call) error { return tooMany }
		h.SetStatus(h.api.put(testPod("p", "u1")), running())
		h.pass(29 * time.Second)
		h.expect(1, 0, 0)
		h.pass(2 * time.Second)
		h.expect(2, 0, 0)
	})
}

func TestLostReplyIsRepaired(t *testing.T) {
	bubble(t, func(h *harness) {
		lost := false
		h.api.after = func(call) error {
			if lost {
				return nil
			}
			lost = true
			return errors.New("connection reset")
		}
		h.SetStatus(h.api.put(testPod("p", "u1")), running())
		h.pass(time.Second)
		h.expect(2, 0, 1) // the second is refused, and what is read needs no third
		if p := h.api.pod("p"); p.Status.Phase != corev1.PodRunning || p.ResourceVersion != "2" {
			t.Errorf("phase %s at version %s, want Running and no second change", p.Status.Phase, p.ResourceVersion)
		}
	})
}

func TestHangingCallEnds(t *testing.T) {
	bubbleWith(t, Config{CallTimeout: 5 * time.Second}, func(h *harness) {
		h.api.delay = time.Hour
		h.SetStatus(h.api.put(testPod("p", "u1")), running())
		h.pass(time.Second)
		h.api.mu.Lock()
		h.api.delay = 0
		h.api.mu.Unlock()
		h.pass(5 * time.Second)
		if p := h.api.pod("p"); p.Status.Phase != corev1.PodRunning {
			t.Errorf("phase %s after a call that hung, want Running", p.Status.Phase)
		}
	})
}

func TestInvalidStatusIsTriedSeldomAndANewOneAtOnce(t *testing.T) {
	bubble(t, func(h *harness) {
		var bad atomic.Bool
		bad.Store(true)
		h.api.before = func(c call) error {
			if bad.Load() && c.verb == "patch" {
				return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p", nil)
			}
			return nil
		}
		pod := h.api.put(testPod("p", "u1"))
		h.SetStatus(pod, running())
		h.pass(time.Hour)
		if n := h.api.count("patch"); n < 15 || n > 30 {
			t.Errorf("%d attempts in an hour, want about 12 and those of the first minutes", n)
		}
		bad.Store(false)
		s := running()
		s.PodIP = "10.0.0.9"
		h.SetStatus(pod, s)
		h.settle()
		if ip := h.api.pod("p").Status.PodIP; ip != "10.0.0.9" {
			t.Errorf("API holds podIP %q at once after a new status", ip)
		}
	})
}

func TestEqualStatusIsNotWritten(t *testing.T) {
	bubble(t, func(h *harness) {
		pod := h.api.put(testPod("p", "u1"))
		s := running()
		h.SetStatus(pod, s)
		h.pass(1500 * time.Millisecond)
		h.expect(1, 0, 0)

		h.SetStatus(pod, s)       // the same again
		h.Observe(h.api.pod("p")) // our own write as the informer tells it
		again := *s.DeepCopy()    // fractions of a second and another order
		again.StartTime = nil     //   are no difference
		again.ContainerStatuses[0], again.ContainerStatuses[1] = again.ContainerStatuses[1], again.ContainerStatuses[0]
		for i := range again.Conditions {
			again.Conditions[i].LastTransitionTime.Time = time.Now()
		}
		h.SetStatus(h.api.pod("p"), again)
		h.api.update("p", func(p *corev1.Pod) { p.Labels = map[string]string{"x": "y"} })
		h.Observe(h.api.pod("p"))
		h.pass(time.Minute)
		h.expect(1, 0, 0)
	})
}

// A new process knows only what the API holds: adopting a pod writes nothing.
func TestEqualStatusIsNotWrittenAfterRestart(t *testing.T) {
	var adopted *corev1.Pod
	var said corev1.PodStatus
	bubble(t, func(h *harness) {
		said = running()
		h.SetStatus(h.api.put(testPod("p", "u1")), said)
		h.settle()
		adopted = h.api.pod("p")
	})
	bubble(t, func(h *harness) {
		time.Sleep(time.Hour)
		pod := h.api.put(adopted)
		h.Observe(pod)
		h.SetStatus(pod, said)
		h.pass(time.Minute)
		h.expect(0, 0, 0)
	})
}

// Behaviour 4: a status is compared with what the API holds.
func TestFlippedConditionIsWrittenAgain(t *testing.T) {
	bubble(t, func(h *harness) {
		h.SetStatus(h.api.put(testPod("p", "u1")), running())
		h.settle()
		flipped := h.api.update("p", func(p *corev1.Pod) { // as the node lifecycle controller does
			findCondition(p.Status.Conditions, corev1.PodReady).Status = corev1.ConditionFalse
		})
		start := time.Now()
		h.Observe(flipped)
		h.settle()
		if c := findCondition(h.api.pod("p").Status.Conditions, corev1.PodReady); c.Status != corev1.ConditionTrue {
			t.Error("Ready stayed False")
		}
		if time.Since(start) != 0 {
			t.Error("the repair waited")
		}
		h.expect(2, 0, 0)
	})
}

func TestSomebodyWhoDisagreesDoesNotMakeAHotLoop(t *testing.T) {
	bubble(t, func(h *harness) {
		h.api.watch = func(p *corev1.Pod) {
			go func() { // every write of ours is undone at once
				if c := findCondition(p.Status.Conditions, corev1.PodReady); c != nil && c.Status == corev1.ConditionTrue {
					p = h.api.update("p", func(p *corev1.Pod) {
						findCondition(p.Status.Conditions, corev1.PodReady).Status = corev1.ConditionFalse
					})
				}
				h.Observe(p)
			}()
		}
		h.SetStatus(h.api.put(testPod("p", "u1")), running())
		h.pass(time.Minute)
		if n := h.api.count("patch"); n < 5 || n > 15 {
			t.Errorf("%d writes in a minute of disagreement, want about 9", n)
		}
	})
}

// The watch may tell that a write was undone before that write's own answer has come.
func TestSomebodyWhoDisagreesBeforeTheAnswerDoesNotMakeAHotLoop(t *testing.T) {
	bubble(t, func(h *harness) {
		const many = 100 // ends what would go on for ever
		h.api.after = func(c call) error {
			if c.verb == "patch" && h.api.count("patch") < many {
				h.Observe(h.api.update("p", func(p *corev1.Pod) {
					findCondition(p.Status.Conditions, corev1.PodReady).Status = corev1.ConditionFalse
				}))
			}
			return nil
		}
		h.SetStatus(h.api.put(testPod("p", "u1")), running())
		h.pass(time.Minute)
		if n := h.api.count("patch"); n < 5 || n > 15 {
			t.Errorf("%d writes in a minute of disagreement, want about 9", n)
		}
		h.pass(5 * time.Minute)
		if n := h.api.count("patch"); n > 45 {
			t.Errorf("%d writes in six minutes, want about 39", n)
		}
	})
}

// A quarrel that is over slows nothing down.
func TestRewritesAreFastAgainAfterACalm(t *testing.T) {
	bubble(t, func(h *harness) {
		h.SetStatus(h.api.put(testPod("p", "u1")), running())
		h.settle()
		flip := func() bool { // reports whether it was repaired at once
			before := h.api.count("patch")
			h.Observe(h.api.update("p", func(p *corev1.Pod) {
				findCondition(p.Status.Conditions, corev1.PodReady).Status = corev1.ConditionFalse
			}))
			h.settle()
			return h.api.count("patch") > before
		}
		if !flip() {
			t.Error("the first flip was not repaired at once")
		}
		for range 6 {
			if flip(); flip() {
				t.Error("a flip right after a repair was repaired at once")
			}
			h.pass(15 * time.Second)
		}
		h.pass(2 * rewriteCalm)
		for range 2 {
			if !flip() {
				t.Error("a flip after a calm was not repaired at once")
			}
		}
	})
}

// Only the order of the list differs: another kubelet sorts by name.
func TestOrderAloneIsNotWritten(t *testing.T) {
	bubble(t, func(h *harness) {
		pod := testPod("p", "u1")
		pod.Spec.Containers = []corev1.Container{{Name: "b"}, {Name: "a"}}
		s := running()
		prepared, err := prepare(pod, &pod.Status, &s, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		merged, _ := merge(&pod.Status, prepared, false, time.Now())
		pod.Status = *merged
		pod.Status.ContainerStatuses = s.ContainerStatuses
		h.SetStatus(h.api.put(pod), s)
		h.settle()
		h.expect(0, 0, 0)
	})
}

func TestConditionsOfOthersSurvive(t *testing.T) {
	bubble(t, func(h *harness) {
		gate := corev1.PodConditionType("example.com/gate")
		pod := testPod("p", "u1")
		pod.Status.Conditions = append(pod.Status.Conditions, condTrue(gate), condTrue(corev1.PodResizePending))
		pod = h.api.put(pod)
		// Set by its controller after the engine read the pod.
		h.api.update("p", func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, condTrue("example.com/late"))
		})
		own := running()
		own.Conditions = append(own.Conditions, condTrue("burstlet.io/try"))
		h.SetStatus(pod, own)
		h.settle()
		got := h.api.pod("p").Status.Conditions
		for _, want := range []corev1.PodConditionType{
			gate, "example.com/late", "burstlet.io/try", corev1.PodScheduled, corev1.PodReady,
		} {
			if findCondition(got, want) == nil {
				t.Errorf("condition %s is gone", want)
			}
		}
		if findCondition(got, corev1.PodResizePending) != nil {
			t.Error("a condition of ours that is no longer wanted stayed")
		}
	})
}

func TestVanishedPodIsDropped(t *testing.T) {
	bubble(t, func(h *harness) {
		pod := h.api.put(testPod("p", "u1"))
		h.api.remove("p")
		h.SetStatus(pod, running())
		h.settle()
		h.expect(1, 0, 1) // a patch with a UID is a conflict when there is no pod
		h.empty()
		h.SetStatus(pod, ended(corev1.PodFailed))
		h.pass(time.Minute)
		h.expect(1, 0, 1)
		h.empty()
	})
}

func TestSuccessorOfTheSameNameIsNotTouched(t *testing.T) {
	t.Run("found by the write", func(t *testing.T) {
		bubble(t, func(h *harness) {
			old := h.api.put(testPod("p", "u1"))
			h.api.put(testPod("p", "u2"))
			h.SetStatus(old, running())
			h.pass(time.Minute)
			h.expect(1, 0, 1)
			h.empty()
			if p := h.api.pod("p"); p.Status.Phase != corev1.PodPending {
				t.Errorf("the successor got phase %s", p.Status.Phase)
			}
		})
	})
	t.Run("known before the write", func(t *testing.T) {
		bubble(t, func(h *harness) {
			old := h.api.put(testPod("p", "u1"))
			h.SetStatus(old, running())
			h.settle()
			h.Observe(h.api.put(testPod("p", "u2")))
			h.SetStatus(old, ended(corev1.PodFailed))
			h.Reclaimed("u1")
			h.pass(time.Minute)
			h.expect(1, 0, 0)
			if _, ok := h.Status("u1"); ok {
				t.Error("the old pod's status is still held")
			}
			h.SetStatus(h.api.pod("p"), running())
			h.settle()
			if p := h.api.pod("p"); p.Status.Phase != corev1.PodRunning {
				t.Errorf("the successor's own status was not written: %s", p.Status.Phase)
			}
		})
	})
	t.Run("never observed", func(t *testing.T) {
		bubble(t, func(h *harness) {
			old := h.api.put(testPod("p", "u1"))
			h.SetStatus(old, running())
			h.settle()
			h.SetStatus(h.api.put(testPod("p", "u2")), running())
			h.SetStatus(old, ended(corev1.PodFailed)) // late
			h.settle()
			if p := h.api.pod("p"); p.UID != "u2" || p.Status.Phase != corev1.PodRunning {
				t.Errorf("API holds %s %s", p.UID, p.Status.Phase)
			}
			h.expect(2, 0, 0)
		})
	})
}

// A cached object older than what the last reply said is no news.
func TestStaleObservationIsIgnored(t *testing.T) {
	bubble(t, func(h *harness) {
		stale := h.api.put(testPod("p", "u1"))
		h.SetStatus(stale, running())
		h.settle()
		h.Observe(stale)
		h.pass(time.Minute)
		h.expect(1, 0, 0)
	})
}

func TestForgetDropsEverything(t *testing.T) {
	bubble(t, func(h *harness) {
		h.api.before = func(call) error { return errors.New("down") }
		pod := h.api.put(testPod("p", "u1"))
		h.Observe(pod)
		h.SetStatus(pod, running())
		h.settle()
		h.Forget("u1")
		h.empty()
		h.SetStatus(pod, running()) // a worker that did not hear yet
		h.Reclaimed("u1")
		h.pass(time.Minute)
		h.expect(1, 0, 0)
		h.empty()
		h.Forget("never heard of")
	})
}

func TestForgetDuringAWrite(t *testing.T) {
	bubble(t, func(h *harness) {
		h.api.delay = time.Second
		pod := h.api.put(testPod("p", "u1"))
		h.SetStatus(pod, running())
		h.settle()
		h.Forget("u1")
		h.pass(2 * time.Second)
		h.empty()
	})
}

func TestStatusReturnsTheWantedOverTheHeld(t *testing.T) {
	bubble(t, func(h *harness) {
		h.containersMayRun("u1", true)
		pod := h.api.put(testPod("p", "u1"))
		if _, ok := h.Status("u1"); ok {
			t.Error("a status before one was set")
		}
		h.SetStatus(pod, ended(corev1.PodFailed))
		h.settle()
		s, ok := h.Status("u1")
		if !ok || s.Phase != corev1.PodFailed {
			t.Errorf("phase %q, want the wanted one though it is held back", s.Phase)
		}
		if findCondition(s.Conditions, corev1.PodScheduled) == nil {
			t.Error("the held conditions are missing")
		}
		s.Conditions[0].Status = "mine" // the caller's own copy
		if again, _ := h.Status("u1"); again.Conditions[0].Status == "mine" {
			t.Error("Status handed out its own memory")
		}
	})
}
