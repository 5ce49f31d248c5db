package objectcache

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

func TestImmutableIsNotWatched(t *testing.T) {
	bubble(t, func(h *harness) {
		h.put("m", "1", immutable)
		a := testPod("a", "m")
		h.Set(a)
		h.expect(a, "m", "1")
		if n := h.count("watch configmaps"); n != 0 {
			t.Errorf("%d watches of an immutable object", n)
		}
		h.told(a)
		h.remove("m")
		h.put("m", "2", immutable, func(m *corev1.ConfigMap) { m.UID = "another" })
		h.expect(a, "m", "1")
		if n := h.told(a); n != 0 {
			t.Errorf("told %d times of an object that cannot change", n)
		}
		// A pod that comes later gets what stands there now.
		b := testPod("b", "m")
		h.Set(b)
		h.expect(b, "m", "2")
		h.expect(a, "m", "2")
		if l, w := h.count("list configmaps"), h.count("watch configmaps"); l != 2 || w != 0 {
			t.Errorf("%d lists, %d watches", l, w)
		}
		h.remove("m")
		c := testPod("c", "m")
		h.Set(c)
		h.expect(c, "m", `error: configmap "m" not found`)
		h.put("m", "3")
		h.expect(c, "m", "3")
	})
}

func TestAnObjectThatTurnsImmutableIsNoLongerWatched(t *testing.T) {
	bubble(t, func(h *harness) {
		h.put("m", "1")
		pod := testPod("a", "m")
		h.Set(pod)
		h.settle()
		h.put("m", "2", immutable)
		h.expect(pod, "m", "2")
		h.put("m", "3", immutable)
		h.expect(pod, "m", "2")
		h.Forget(pod.UID)
	})
}

// A new pod does not trust an immutable value from before its time, the others
// keep it meanwhile.
func TestAPodWaitsForItsOwnLookAtAnImmutableObject(t *testing.T) {
	bubble(t, func(h *harness) {
		h.put("m", "1", immutable)
		old := testPod("old", "m")
		h.Set(old)
		h.settle()
		h.fail(func(string) error { return errors.New("down") })
		var pods []*corev1.Pod
		for _, name := range []string{"a", "b", "c"} {
			pods = append(pods, testPod(name, "m"))
			h.Set(pods[len(pods)-1])
			h.settle()
		}
		for _, pod := range pods {
			h.expect(pod, "m", "unknown")
		}
		h.expect(old, "m", "1")
		h.pass(10 * time.Second)
		h.expect(pods[0], "m", "error: failed to sync configmap cache: down")
		h.expect(old, "m", "1")
		h.fail(nil)
		h.pass(retryMax)
		for _, pod := range append(pods, old) {
			h.expect(pod, "m", "1")
		}
		for _, pod := range pods {
			if n := h.told(pod); n < 1 {
				t.Errorf("%s was not told", pod.Name)
			}
		}
	})
}

// slow makes requests take a second. The fake API server does one at a time, and
// no other may wait for it meanwhile: virtual time would stand still.
func (h *harness) slow(verb, resource string) {
	h.api.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		time.Sleep(time.Second)
		return false, nil, nil
	})
}

// A list that was under way when the pod came may be older than the pod.
func TestALookUnderWayIsNotTrustedByALaterPod(t *testing.T) {
	bubble(t, func(h *harness) {
		h.put("m", "1", immutable)
		old, a, b := testPod("old", "m"), testPod("a", "m"), testPod("b", "m")
		h.Set(old)
		h.settle()
		h.slow("list", "configmaps")
		h.Set(a)
		h.pass(500 * time.Millisecond)
		h.Set(b)
		h.pass(time.Second)
		h.expect(a, "m", "1")
		h.expect(b, "m", "unknown")
		h.pass(time.Second)
		h.expect(b, "m", "1")
		if n := h.count("list configmaps"); n != 3 {
			t.Errorf("%d lists, want one for each pod", n)
		}
	})
}
