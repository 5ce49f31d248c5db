package wait

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
)

// failing is a test that notes how it failed.
type failing struct {
	testing.TB
	how string
}

func (f *failing) Helper() {}
func (f *failing) Fatalf(format string, args ...any) {
	f.how = fmt.Sprintf(format, args...)
	panic(f)
}

// failure runs f and returns how the test failed, "" if it did not.
func failure(t *testing.T, f func(testing.TB)) string {
	t.Helper()
	test := &failing{TB: t}
	func() {
		defer func() {
			if got := recover(); got != nil && got != test {
				panic(got)
			}
		}()
		f(test)
	}()
	return test.how
}

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		For(t, time.Minute, "the third look", func() error {
			if looks++; looks < 3 {
				return errors.New("not yet")
			}
			return nil
		})
		if looks != 3 {
			t.Errorf("%d looks, want 3", looks)
		}
		start, looks := time.Now(), 0
		got := failure(t, func(t testing.TB) {
			For(t, time.Minute, "the end of time", func() error { looks++; return errors.New("not yet") })
		})
		if want := "the end of time: not within 1m0s: not yet"; got != want {
			t.Errorf("failed with %q, want %q", got, want)
		}
		if took := time.Since(start); took != time.Minute {
			t.Errorf("failed after %s", took)
		}
		if looks < 120 || looks > 220 {
			t.Errorf("%d looks in a minute", looks)
		}
	})
}

// What has happened while the machine stood still is seen.
func TestForLooksOnceMoreAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		For(t, time.Second, "the second look", func() error {
			if looks++; looks == 1 {
				time.Sleep(time.Minute)
				return errors.New("not yet")
			}
			return nil
		})
	})
}

func TestHolds(t *testing.T) {
	looks := 0
	Holds(t, time.Minute, "the third look", func() bool { looks++; return looks == 3 })
	if looks != 3 {
		t.Errorf("%d looks, want 3", looks)
	}
	got := failure(t, func(t testing.TB) { Holds(t, time.Millisecond, "never", func() bool { return false }) })
	if want := "never: not within 1ms: it is not so"; got != want {
		t.Errorf("failed with %q, want %q", got, want)
	}
}

func TestForInACleanup(t *testing.T) {
	t.Run("test", func(t *testing.T) {
		t.Cleanup(func() {
			looks := 0
			For(t, time.Minute, "the second look", func() error {
				if looks++; looks == 1 {
					return errors.New("not yet")
				}
				return nil
			})
		})
	})
}

func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		last := errors.New("not yet")
		err := Until(ctx, "the end of time", func(context.Context) error { return last })
		if !errors.Is(err, last) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
}

// A look that the end of the context cuts short tells only of that end: what the one
// before saw is told too.
func TestUntilTellsWhatItSawBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		seen, looks := errors.New("phase Pending"), 0
		err := Until(ctx, "a pod that runs", func(ctx context.Context) error {
			if ctx.Err() != nil {
				t.Error("it looks with a context that has ended")
			}
			if looks++; looks == 1 {
				return seen
			}
			<-ctx.Done()
			return fmt.Errorf("get the pod: %w", context.Cause(ctx))
		})
		if !errors.Is(err, seen) || !strings.Contains(err.Error(), "get the pod") {
			t.Errorf("error %v", err)
		}
	})
}

// Where the pause and the context end together, there is no look without a context.
func TestUntilLooksWithAContextThatHolds(t *testing.T) {
	for range 20 { // which of two that are ready comes first is the runtime's choice
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), firstPause)
			defer cancel()
			_ = Until(ctx, "the end of time", func(ctx context.Context) error {
				if ctx.Err() != nil {
					t.Error("it looks with a context that has ended")
				}
				return errors.New("not yet")
			})
		})
	}
}

func pod(phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}, Status: corev1.PodStatus{Phase: phase}}
}

// A pod passes through states faster than anybody could ask for them.
func TestPodSeesEveryState(t *testing.T) {
	client := fake.NewClientset()
	var seen []corev1.PodPhase
	var change func()
	phases := []corev1.PodPhase{corev1.PodRunning, corev1.PodFailed, corev1.PodRunning, corev1.PodSucceeded}
	client.PrependWatchReactor("pods", func(ktesting.Action) (bool, watch.Interface, error) {
		w := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 10})
		change = func() {
			w.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "another"}})
			for _, phase := range phases {
				w.Modify(pod(phase))
			}
		}
		change()
		return true, w, nil
	})
	got := Pod(t, client, "ns", "a", time.Minute, "done", func(pod *corev1.Pod) error {
		seen = append(seen, pod.Status.Phase)
		if pod.Status.Phase != corev1.PodSucceeded {
			return fmt.Errorf("phase %s", pod.Status.Phase)
		}
		return nil
	})
	if fmt.Sprint(seen) != fmt.Sprint(phases) || got.Status.Phase != corev1.PodSucceeded {
		t.Errorf("saw %v, and in the end %s", seen, got.Status.Phase)
	}
}

func TestPodTellsItsLastStateAndEvents(t *testing.T) {
	client := fake.NewClientset(pod(corev1.PodPending), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "ns", Name: "e"},
		InvolvedObject: corev1.ObjectReference{Name: "a"}, Type: "Warning", Reason: "FailedPull", Message: "no such image",
	})
	got := failure(t, func(t testing.TB) {
		Pod(t, client, "ns", "a", 50*time.Millisecond, "runs", func(pod *corev1.Pod) error {
			return fmt.Errorf("phase %s", pod.Status.Phase)
		})
	})
	for _, want := range []string{
		"pod ns/a: runs: not within 50ms: phase Pending", "FailedPull", "no such image", `"phase":"Pending"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the failure lacks %q: %s", want, got)
		}
	}
	got = failure(t, func(t testing.TB) {
		Pod(t, client, "ns", "b", 50*time.Millisecond, "runs", func(*corev1.Pod) error { return nil })
	})
	if !strings.Contains(got, errNone.Error()) {
		t.Errorf("of a pod that is not there: %s", got)
	}
}

// A watch that breaks off, and an API server that is away, are no failures.
func TestPodWatchesAgain(t *testing.T) {
	client := fake.NewClientset(pod(corev1.PodPending))
	lists, watches := 0, 0
	client.PrependReactor("list", "pods", func(ktesting.Action) (bool, runtime.Object, error) {
		if lists++; lists == 1 {
			return true, nil, errors.New("connection refused")
		}
		return false, nil, nil
	})
	client.PrependWatchReactor("pods", func(ktesting.Action) (bool, watch.Interface, error) {
		w := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 10})
		switch watches++; watches {
		case 1:
			return true, nil, errors.New("connection refused")
		case 2:
			w.Stop()
		default:
			w.Modify(pod(corev1.PodRunning))
		}
		return true, w, nil
	})
	Pod(t, client, "ns", "a", time.Minute, "runs", func(pod *corev1.Pod) error {
		if pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("phase %s", pod.Status.Phase)
		}
		return nil
	})
}

func TestPodGone(t *testing.T) {
	client := fake.NewClientset(pod(corev1.PodRunning))
	client.PrependWatchReactor("pods", func(ktesting.Action) (bool, watch.Interface, error) {
		w := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 10})
		w.Delete(pod(corev1.PodRunning))
		return true, w, nil
	})
	PodGone(t, client, "ns", "a", time.Minute)
	PodGone(t, client, "ns", "never-there", time.Minute)
	still := fake.NewClientset(pod(corev1.PodRunning))
	if got := failure(
		t, func(t testing.TB) { PodGone(t, still, "ns", "a", 50*time.Millisecond) },
	); !strings.Contains(got, "still there, Running") {
		t.Errorf("failed with %q", got)
	}
}

func TestNodeReady(t *testing.T) {
	ready := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
	Node(t, fake.NewClientset(ready), "n", time.Minute, "Ready", NodeReady)
	ready.Status.Conditions[0].Status = corev1.ConditionUnknown
	got := failure(t, func(t testing.TB) {
		Node(t, fake.NewClientset(ready), "n", 50*time.Millisecond, "Ready", NodeReady)
	})
	if !strings.Contains(got, "node n: Ready: not within 50ms") || !strings.Contains(got, "Unknown") {
		t.Errorf("failed with %q", got)
	}
}
