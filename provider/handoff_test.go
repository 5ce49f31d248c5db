package provider

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"
	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/burstlet/burstlet/provider/inert"
)

var podKind = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// desk is the framework's real PodController with our hand-off around it, on a
// fake API server, in virtual time.
type desk struct {
	t        *testing.T
	client   *fake.Clientset
	pods     cache.SharedIndexInformer
	spy      *spy
	enqueued enqueued

	mu      sync.Mutex
	dropped map[string]int
}

// handOff runs a test with the hand-off running over the pods given.
func handOff(t *testing.T, prepare func(*fake.Clientset), test func(*desk), pods ...*corev1.Pod) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{t: t, client: fake.NewClientset(), dropped: map[string]int{}}
		for _, pod := range pods {
			d.add(pod)
		}
		if prepare != nil {
			prepare(d.client)
		}
		var err error
		if d.pods, err = NewPodInformer(d.client, "n1"); err != nil {
			t.Fatal(err)
		}
		d.spy = &spy{podHandler: newPodHandler(d.pods.GetStore(), d.enqueued.enqueue)}
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := d.pods.AddEventHandler(podEvents(d.enqueued.enqueue, d.spy.forget)); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() { d.pods.RunWithContext(ctx) })
		given := inert.Pods{Enqueue: d.enqueued.enqueue, Dropped: func(verb string) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.dropped[verb]++
		}}
		wg.Go(func() {
			if err := runPods(ctx, podControllerConfig(d.client, d.pods, d.spy, given)); err != nil {
				t.Error(err)
			}
		})
		d.settle(time.Second)
		test(d)
		cancel()
		wg.Wait() // the bubble then fails if the framework left a goroutine
		for _, kind := range []string{"pods", "events", "nodes"} {
			if found := writes(d.client, kind); len(found) > 0 {
				t.Errorf("the framework wrote %s: %v", kind, found)
			}
		}
		for _, kind := range []string{"secrets", "configmaps", "services"} {
			for _, action := range d.client.Actions() {
				if action.GetResource().Resource == kind {
					t.Errorf("the framework reads %s", kind)
				}
			}
		}
	})
}

// settle lets virtual time pass and everything come to rest.
func (d *desk) settle(after time.Duration) {
	time.Sleep(after)
	synctest.Wait()
}

func (d *desk) drops(verb string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dropped[verb]
}

// add, update and remove change the API without a trace among its actions.
func (d *desk) add(pod *corev1.Pod) {
	d.t.Helper()
	if err := d.client.Tracker().Add(pod); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) update(pod *corev1.Pod) {
	d.t.Helper()
	if err := d.client.Tracker().Update(podKind, pod, pod.Namespace); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) remove(pod *corev1.Pod) {
	d.t.Helper()
	if err := d.client.Tracker().Delete(podKind, pod.Namespace, pod.Name); err != nil {
		d.t.Fatal(err)
	}
}

// stands fails the test if the API no longer has a pod of this UID.
func (d *desk) stands(pod *corev1.Pod) {
	d.t.Helper()
	obj, err := d.client.Tracker().Get(podKind, pod.Namespace, pod.Name)
	if err != nil || obj.(*corev1.Pod).UID != pod.UID {
		d.t.Errorf("pod %s is gone from the API: %v", pod.Name, err)
	}
}

// hinted fails the test unless a key was enqueued since before.
func (d *desk) hinted(key string, before int) {
	d.t.Helper()
	if d.enqueued.count(key) <= before {
		d.t.Errorf("no hint for %s", key)
	}
}

func TestPodsAreHandedOnOnce(t *testing.T) {
	handOff(t, nil, func(d *desk) {
		if n := d.spy.count(call{"create", "ns/a", "1"}); n != 1 {
			t.Errorf("CreatePod was called %d times", n)
		}
		d.hinted("ns/a", 0)
		pod := newPod("a", "1")
		pod.Labels = map[string]string{"new": "label"}
		before := d.enqueued.count("ns/a")
		d.update(pod)
		d.settle(time.Second)
		d.hinted("ns/a", before)
		if n := d.spy.verbs("create"); n != 1 {
			t.Errorf("after an update CreatePod was called %d times", n)
		}
	}, newPod("a", "1"))
}

// Trap: the framework is keyed by name and compares no UIDs.
func TestSuccessorUnderTheSameNameIsNotHidden(t *testing.T) {
	t.Run("deleted and made again", func(t *testing.T) {
		handOff(t, nil, func(d *desk) {
			before := d.enqueued.count("ns/a")
			d.remove(newPod("a", "1"))
			d.add(newPod("a", "2"))
			d.settle(time.Second)
			d.hinted("ns/a", before)
			if n := d.spy.count(call{"create", "ns/a", "2"}); n != 1 {
				t.Errorf("CreatePod of the successor was called %d times", n)
			}
		}, newPod("a", "1"))
	})
	t.Run("replaced in one event", func(t *testing.T) {
		handOff(t, nil, func(d *desk) {
			before := d.enqueued.count("ns/a")
			d.update(newPod("a", "2")) // as after a watch gap: an update with another UID
			d.settle(time.Second)
			d.hinted("ns/a", before)
			if d.spy.verbs("update")+d.spy.verbs("create") != 1 {
				t.Logf("the framework noticed it: %v", d.spy.calls)
			}
			// What the framework asks about the successor must not be answered
			// with the one before it.
			if pod, err := d.spy.GetPod(t.Context(), "ns", "a"); err == nil {
				t.Errorf("GetPod answers with %s, which was never handed on", pod.UID)
			}
		}, newPod("a", "1"))
	})
	t.Run("replaced while the old one is stopping", func(t *testing.T) {
		handOff(t, nil, func(d *desk) {
			d.update(deleting(running(newPod("a", "1")), 30))
			d.settle(time.Second)
			d.remove(newPod("a", "1"))
			d.add(newPod("a", "2"))
			d.settle(time.Minute) // the old one's grace timer goes off
			if n := d.spy.count(call{"create", "ns/a", "2"}); n != 1 {
				t.Errorf("CreatePod of the successor was called %d times", n)
			}
			d.stands(newPod("a", "2"))
		}, running(newPod("a", "1")))
	})
}

// Trap: the framework ignores tombstones, so that it would never hear of a deletion that
// a broken watch missed, and keep what it knows of the pod for ever.
func TestDeletionInAWatchGapIsSeen(t *testing.T) {
	var watches []*watch.FakeWatcher
	prepare := func(client *fake.Clientset) {
		client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
			w := watch.NewFake()
			watches = append(watches, w)
			return true, w, nil
		})
	}
	handOff(t, prepare, func(d *desk) {
		before := d.enqueued.count("ns/a")
		d.remove(newPod("a", "1"))
		gone := apierrors.NewResourceExpired("too old").ErrStatus
		watches[0].Error(&gone)
		d.settle(time.Minute)
		if len(watches) < 2 {
			t.Fatal("the informer did not list again")
		}
		d.hinted("ns/a", before)
		d.spy.podHandler.mu.Lock()
		defer d.spy.podHandler.mu.Unlock()
		if len(d.spy.seen) != 0 {
			t.Errorf("still remembered: %v", d.spy.seen)
		}
	}, newPod("a", "1"))
}

// Trap: a pod without running containers is deleted from the API at once, and
// the provider asked only afterwards.
func TestDeletingPodWithoutRunningContainersStays(t *testing.T) {
	handOff(t, nil, func(d *desk) {
		pod := deleting(newPod("a", "1"), 30)
		d.update(pod)
		d.settle(time.Minute)
		d.stands(pod)
		if d.drops("delete") == 0 {
			t.Error("the framework did not try: this test shows nothing any more")
		}
	}, newPod("a", "1"))
}

// Trap: when the grace period is over the framework deletes from the API
// whatever still runs.
func TestGraceTimerDoesNotDelete(t *testing.T) {
	handOff(t, nil, func(d *desk) {
		pod := deleting(running(newPod("a", "1")), 30)
		d.update(pod)
		d.settle(29 * time.Second)
		if n := d.spy.count(call{"delete", "ns/a", "1"}); n != 1 {
			t.Errorf("DeletePod was called %d times", n)
		}
		if d.drops("delete") != 0 {
			t.Error("dropped too early: this test shows nothing any more")
		}
		before := d.enqueued.count("ns/a")
		d.settle(time.Minute)
		d.stands(pod)
		if d.drops("delete") == 0 {
			t.Error("the framework did not try: this test shows nothing any more")
		}
		d.hinted("ns/a", before)
	}, running(newPod("a", "1")))
}

// Trap: what the provider still has and the API has not is deleted at the start,
// by name. It is told of nothing, and nothing is deleted.
func TestNothingIsDeletedAtTheStart(t *testing.T) {
	handOff(t, nil, func(d *desk) {
		pods, err := d.spy.GetPods(t.Context())
		if err != nil || len(pods) != 0 {
			t.Errorf("GetPods: %v, %v", pods, err)
		}
		if n := d.spy.verbs("delete"); n != 0 {
			t.Errorf("DeletePod was called %d times", n)
		}
	}, newPod("a", "1"))
}

// Traps: a provider's error makes the framework write a status, with a PUT of the
// whole pod; and after twenty tries it forgets the pod.
func TestFailuresAreRetriedForEverAndWriteNothing(t *testing.T) {
	handOff(t, nil, func(d *desk) {
		d.spy.mu.Lock()
		d.spy.fail = 30
		d.spy.mu.Unlock()
		d.add(newPod("b", "2"))
		d.settle(10 * time.Minute)
		if n := d.spy.count(call{"create", "ns/b", "2"}); n != 31 {
			t.Errorf("CreatePod was called %d times, want 31", n)
		}
		if n := d.drops("update_status"); n != 30 {
			t.Errorf("%d status writes dropped, want 30", n)
		}
		obj, err := d.client.Tracker().Get(podKind, "ns", "b")
		if err != nil || obj.(*corev1.Pod).Status.Reason != "" {
			t.Errorf("the API's pod: %+v, %v", obj, err)
		}
	})
}

// Trap: without a notifier the framework polls statuses and writes Failed and
// Succeeded by itself.
func TestStatusesAreNeverWritten(t *testing.T) {
	handOff(t, nil, func(d *desk) {
		d.settle(time.Hour)
		if n := d.drops("update_status"); n != 0 {
			t.Errorf("%d status writes tried", n)
		}
		d.update(deleting(running(newPod("a", "1")), 5))
		d.settle(time.Hour)
		if n := d.drops("update_status"); n != 0 {
			t.Errorf("%d status writes tried while deleting", n)
		}
	}, running(newPod("a", "1")))
}

// The framework drops changes of status alone, resyncs and terminal pods; the
// engine wants to know of each.
func TestChangesThatTheFrameworkDropsAreHinted(t *testing.T) {
	handOff(t, nil, func(d *desk) {
		before := d.enqueued.count("ns/a")
		pod := running(newPod("a", "1"))
		d.update(pod)
		d.settle(time.Second)
		d.hinted("ns/a", before)
		before = d.enqueued.count("ns/a")
		pod = newPod("a", "1")
		pod.Status.Phase = corev1.PodFailed
		d.update(pod)
		d.settle(time.Second)
		d.hinted("ns/a", before)
	}, newPod("a", "1"))
}

// Trap: the framework's queues let ten keys a second through.
func TestManyPodsAreNotRateLimited(t *testing.T) {
	handOff(t, nil, func(d *desk) {
		for i := range 500 {
			d.add(newPod(fmt.Sprintf("p%d", i), "u"))
			if i%50 == 0 {
				synctest.Wait() // a fake watch holds a hundred events
			}
		}
		d.settle(time.Second)
		if n := d.spy.verbs("create"); n != 500 {
			t.Errorf("%d of 500 pods handed on within a second", n)
		}
	})
}

// Trap: errdefs does not unwrap, so its class must be the outermost error.
func TestUnknownPodsAreNotFoundInTheFrameworksTerms(t *testing.T) {
	h := newPodHandler(cache.NewStore(cache.MetaNamespaceKeyFunc), func(string) {})
	if _, err := h.GetPod(t.Context(), "ns", "x"); !errdefs.IsNotFound(err) {
		t.Errorf("GetPod: %v", err)
	}
	if _, err := h.GetPodStatus(t.Context(), "ns", "x"); !errdefs.IsNotFound(err) {
		t.Errorf("GetPodStatus: %v", err)
	}
}

func TestEveryCallIsAHintAndSucceeds(t *testing.T) {
	var r enqueued
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	h := newPodHandler(store, r.enqueue)
	pod := newPod("a", "1")
	if err := store.Add(pod); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"CreatePod":    func() error { return h.CreatePod(t.Context(), pod) },
		"UpdatePod":    func() error { return h.UpdatePod(t.Context(), pod) },
		"DeletePod":    func() error { return h.DeletePod(t.Context(), pod) },
		"GetPod":       func() error { _, _ = h.GetPod(t.Context(), "ns", "a"); return nil },
		"GetPodStatus": func() error { _, _ = h.GetPodStatus(t.Context(), "ns", "a"); return nil },
	} {
		before := r.count("ns/a")
		if err := do(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if r.count("ns/a") == before {
			t.Errorf("%s gave no hint", name)
		}
	}
	if got, err := h.GetPod(t.Context(), "ns", "a"); err != nil || got != pod {
		t.Errorf("GetPod after CreatePod: %v, %v", got, err)
	}
	if err := store.Update(newPod("a", "2")); err != nil {
		t.Fatal(err)
	}
	if got, err := h.GetPod(t.Context(), "ns", "a"); err == nil {
		t.Errorf("GetPod hides the successor: %v", got)
	}
	h.NotifyPods(t.Context(), func(*corev1.Pod) { t.Error("the callback was called") })
	// A late call for a pod that left the store leaves no trace.
	if err := store.Delete(pod); err != nil {
		t.Fatal(err)
	}
	h.forget("ns/a")
	if err := h.CreatePod(t.Context(), pod); err != nil || len(h.seen) != 0 {
		t.Errorf("remembered %v, %v", h.seen, err)
	}
}

func TestManagedFieldsAreDropped(t *testing.T) {
	pod := newPod("a", "1")
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	got, err := dropManagedFields(pod)
	if err != nil || got.(*corev1.Pod).ManagedFields != nil || got.(*corev1.Pod).UID != "1" {
		t.Errorf("%+v, %v", got, err)
	}
	if pod.ManagedFields == nil {
		t.Error("the object that was given is changed")
	}
}

// Trap: the framework keeps the pod that it last handed on, of every pod.
func TestTheFrameworkKeepsNoPods(t *testing.T) {
	handOff(t, nil, func(d *desk) {
		old := weak.Make(d.spy.stored("ns/a"))
		d.update(running(newPod("a", "1")))
		d.settle(time.Second)
		runtime.GC()
		if old.Value() != nil {
			t.Error("the pod before the last change of its status is still held")
		}
	}, newPod("a", "1"))
}

func TestTombstonesAreUnwrapped(t *testing.T) {
	var heard []any
	h := podsOnly{cache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) { heard = append(heard, obj) }}}
	pod := newPod("a", "1")
	h.OnDelete(pod)
	h.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/a", Obj: pod})
	if diff := cmp.Diff([]any{pod, pod}, heard); diff != "" {
		t.Error(diff)
	}
}

// What the framework reads of a pod is what it was.
func TestLightPods(t *testing.T) {
	pod := deleting(running(newPod("a", "1")), 30)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses,
		corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}},
		corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "r"}}})
	got := lightPod(pod)
	states := func(p *corev1.Pod) (out []string) {
		for _, c := range p.Status.ContainerStatuses {
			out = append(out, fmt.Sprint(c.State.Terminated != nil, c.State.Waiting != nil))
		}
		return out
	}
	if diff := cmp.Diff(states(pod), states(got)); diff != "" || got.Status.Phase != pod.Status.Phase ||
		got.UID != pod.UID ||
		got.DeletionTimestamp != pod.DeletionTimestamp || *got.DeletionGracePeriodSeconds != 30 {
		t.Errorf("%+v\n%s", got, diff)
	}
	if len(got.Spec.Containers) != 0 {
		t.Error("the spec is still there")
	}
}
