package objectcache

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
)

type watchInterface = watch.Interface

func TestLifeOfAnObject(t *testing.T) {
	bubble(t, func(h *harness) {
		pod := testPod("a", "m")
		h.Set(pod)
		h.expect(pod, "m", `error: configmap "m" not found`)
		steps := []struct {
			do   func()
			want string
		}{
			{func() { h.put("m", "1") }, "1"},
			{func() { h.put("m", "2") }, "2"},
			{func() { h.remove("m") }, `error: configmap "m" not found`},
			{func() { h.put("m", "3", func(m *corev1.ConfigMap) { m.UID = "another" }) }, "3"},
		}
		h.told(pod)
		for i, step := range steps {
			step.do()
			h.expect(pod, "m", step.want)
			if n := h.told(pod); n != 1 {
				t.Errorf("step %d: told %d times, want once", i, n)
			}
		}
		h.put("other", "x")
		if n := h.told(pod); n != 0 {
			t.Errorf("told %d times of another's object", n)
		}
		if n := h.count("watch configmaps"); n != 1 {
			t.Errorf("%d watches", n)
		}
		if time.Since(h.began) != 0 {
			t.Error("something waited for a timer")
		}
	})
}

// The authorizer's graph fills a moment after binding.
func TestRefusalsAreAskedAgain(t *testing.T) {
	bubble(t, func(h *harness) {
		h.fail(func(request string) error {
			if request == "list configmaps" {
				return forbidden("configmaps", "m")
			}
			return nil
		})
		pod := testPod("a", "m")
		h.Set(pod)
		h.told(pod) // of the Services
		h.pass(5 * time.Second)
		h.expect(pod, "m", "unknown")
		h.pass(time.Second)
		h.expect(
			pod, "m",
			`error: failed to sync configmap cache: configmaps "m" is forbidden: no relationship found between node 'n' and this object`,
		)
		want := []time.Duration{0, 10, 30, 70, 150, 310, 630, 1270, 2550, 5110}
		for i := range want {
			want[i] *= time.Millisecond
		}
		if got := h.times("list configmaps"); !slices.Equal(got, want) {
			t.Errorf("asked at %v, want %v", got, want)
		}
		if n := h.told(pod); n != 1 {
			t.Errorf("told %d times, want once", n)
		}
		h.pass(time.Hour)
		times := h.times("list configmaps")
		last := times[len(times)-1] - times[len(times)-2]
		if last < retryMax || last > retryMax*6/5 {
			t.Errorf("at last asked every %v", last)
		}
		if n := h.told(pod); n != 0 {
			t.Errorf("told %d times more of the same", n)
		}
		h.fail(nil)
		h.put("m", "1")
		h.pass(retryMax * 2)
		h.expect(pod, "m", "1")
	})
}

func TestAGraphThatFillsLateIsNotSeen(t *testing.T) {
	bubble(t, func(h *harness) {
		h.put("m", "1")
		h.fail(func(request string) error {
			if request == "list configmaps" && time.Since(h.began) < 300*time.Millisecond {
				return forbidden("configmaps", "m")
			}
			return nil
		})
		pod := testPod("a", "m")
		h.Set(pod)
		h.told(pod) // of the Services
		h.pass(310 * time.Millisecond)
		h.expect(pod, "m", "1")
		if n := h.told(pod); n != 1 {
			t.Errorf("told %d times, want once, of the value", n)
		}
	})
}

func TestAnOutageLeavesTheLastKnownValue(t *testing.T) {
	for name, down := range map[string]error{
		"unreachable": errors.New("connection refused"),
		"overloaded":  apierrors.NewTooManyRequests("slow down", 20),
		"credential":  apierrors.NewUnauthorized("expired"),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				watches := h.watches(1)
				h.put("m", "1")
				pod, late := testPod("a", "m"), testPod("b", "late")
				h.Set(pod)
				h.settle()
				h.told(pod)
				h.fail(func(string) error { return down })
				(*watches)[0].Stop()
				h.pass(4 * time.Second)
				h.Set(late)
				h.pass(4 * time.Second)
				h.expect(late, "late", "unknown")
				h.pass(time.Minute)
				h.expect(pod, "m", "1")
				h.expect(late, "late", "error: failed to sync configmap cache: "+down.Error())
				h.fail(nil)
				h.pass(2 * retryMax)
				h.expect(late, "late", `error: configmap "late" not found`)
				if n := h.told(pod); n != 0 {
					t.Errorf("told %d times of an outage", n)
				}
				h.put("m", "2")
				h.expect(pod, "m", "2")
			})
		})
	}
}

// watches makes the first n watches end at the test's will; they send what the
// test says and no change of the tracker.
func (h *harness) watches(n int) *[]*watch.FakeWatcher {
	var all []*watch.FakeWatcher
	tracked := h.api.WatchReactionChain[1:]
	h.api.WatchReactionChain = append(h.api.WatchReactionChain[:1:1], &clienttesting.SimpleWatchReactor{
		Resource: "configmaps",
		Reaction: func(clienttesting.Action) (bool, watch.Interface, error) {
			if len(all) == n {
				return false, nil, nil
			}
			w := watch.NewFake()
			all = append(all, w)
			return true, w, nil
		},
	})
	h.api.WatchReactionChain = append(h.api.WatchReactionChain, tracked...)
	return &all
}

func TestEndsOfAWatch(t *testing.T) {
	gone := apierrors.NewResourceExpired("too old").Status()
	refused := metav1.Status{Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden}
	for name, tt := range map[string]struct {
		end  func(*watch.FakeWatcher)
		list int           // how many lists there are then
		wait time.Duration // until a watch stands again
	}{
		"it timed out":             {func(w *watch.FakeWatcher) { w.Stop() }, 1, 0},
		"its version is too old":   {func(w *watch.FakeWatcher) { w.Error(&gone) }, 2, 610 * time.Millisecond},
		"the authorizer forgot it": {func(w *watch.FakeWatcher) { w.Error(&refused) }, 1, 10 * time.Millisecond},
		"a bookmark, and then": {func(w *watch.FakeWatcher) {
			w.Action(watch.Bookmark, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "70"}})
			w.Stop()
		}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				watches := h.watches(2)
				h.put("m", "1")
				pod := testPod("a", "m")
				h.Set(pod)
				h.settle()
				(*watches)[0].Modify(&corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", ResourceVersion: "50"},
					Data:       map[string]string{"k": "2"},
				})
				h.expect(pod, "m", "2")
				h.pass(time.Minute)
				tt.end((*watches)[0])
				h.pass(tt.wait)
				if l, w := h.count("list configmaps"), h.count("watch configmaps"); l != tt.list || w != 2 {
					t.Fatalf("%d lists, %d watches, want %d and 2", l, w, tt.list)
				}
				(*watches)[1].Delete(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
					Namespace: "ns", Name: "m", ResourceVersion: "60",
				}})
				h.expect(pod, "m", `error: configmap "m" not found`)
			})
		})
	}
}

// An API server that ends each watch at once is not asked in a tight loop.
func TestShortWatchesAreSpaced(t *testing.T) {
	bubble(t, func(h *harness) {
		h.put("m", "1")
		h.api.PrependWatchReactor("configmaps", func(clienttesting.Action) (bool, watch.Interface, error) {
			if err := h.note("short"); err != nil {
				return true, nil, err
			}
			w := watch.NewFake()
			w.Stop()
			return true, w, nil
		})
		pod := testPod("a", "m")
		h.Set(pod)
		h.pass(time.Minute)
		if n := h.count("short"); n < 3 || n > 20 {
			t.Errorf("%d watches in a minute", n)
		}
		h.expect(pod, "m", "1")
	})
}

func TestRetry(t *testing.T) {
	now := time.Unix(0, 0)
	var r retry
	delay, told := r.failed(now, errors.New("x"))
	if delay < failedBase || delay > failedBase*6/5 || told {
		t.Errorf("first failure: %v %v", delay, told)
	}
	if delay, _ := r.failed(now, apierrors.NewTooManyRequests("x", 7)); delay < 7*time.Second {
		t.Errorf("the API server's wish was not heeded: %v", delay)
	}
	for range 100 {
		delay, told = r.failed(now.Add(patience), errors.New("x"))
	}
	if delay < retryMax || delay > retryMax*6/5 || !told {
		t.Errorf("after many failures: %v %v", delay, told)
	}
	if !r.report() || r.report() {
		t.Error("a row of failures is reported once")
	}
}

func TestDifferentUIDsAreDifferentPods(t *testing.T) {
	bubble(t, func(h *harness) {
		h.put("m", "1")
		old, now := testPod("a", "m"), testPod("a", "m")
		now.UID = types.UID("successor")
		h.Set(old)
		h.Set(now)
		h.Forget(old.UID)
		h.expect(now, "m", "1")
		h.expect(old, "m", "unknown")
	})
}

func TestAForgottenObjectsWatchEnds(t *testing.T) {
	bubble(t, func(h *harness) {
		watches := h.watches(1)
		pod := testPod("a", "m")
		h.Set(pod)
		h.settle()
		if (*watches)[0].IsStopped() {
			t.Fatal("the watch ended by itself")
		}
		h.Forget(pod.UID)
		h.settle()
		if !(*watches)[0].IsStopped() {
			t.Error("the watch goes on")
		}
	})
}

// After a success failures count from one again.
func TestFailuresThatAreOverDoNotSlowDownLaterOnes(t *testing.T) {
	bubble(t, func(h *harness) {
		watches := h.watches(2)
		h.put("m", "1")
		h.fail(func(string) error { return forbidden("configmaps", "m") })
		pod := testPod("a", "m")
		h.Set(pod)
		h.pass(time.Minute)
		h.fail(nil)
		h.pass(2 * retryMax)
		h.expect(pod, "m", "1")
		(*watches)[0].Error(&metav1.Status{Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden})
		h.pass(refusedBase)
		if len(*watches) != 2 {
			t.Error("the watch does not stand again after the first delay")
		}
	})
}
