package syncloop_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend/sim"
	"github.com/burstlet/burstlet/syncloop"
)

// static is a static pod whose container runs argv.
func static(name string, uid types.UID, argv ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: uid, Annotations: map[string]string{"kubernetes.io/config.source": "file"},
		},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways,
			Containers: []corev1.Container{{
				Name: "a", Image: "busybox", Command: argv, ImagePullPolicy: corev1.PullIfNotPresent,
			}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

// runs says which pods run on the remote.
func (a *api) runs() (uids []string) {
	for _, f := range a.remote.Facts() {
		if f.Live {
			uids = append(uids, string(f.UID))
		}
	}
	return uids
}

// A static pod runs without the API, ends with its file, and makes room for its successor
// before that starts.
func TestStaticPodsRun(t *testing.T) {
	each(t, sim.Config{}, func(t *testing.T, a *api) {
		expect := func(step, want string) {
			t.Helper()
			if got := strings.Join(a.runs(), " "); got != want {
				t.Errorf("%s: %q runs, want %q", step, got, want)
			}
		}
		const stubborn = "trap '' TERM; sleep infinity"
		a.synced.Store(false)
		a.setStatic(static("p", "h1", "sh", "-c", stubborn))
		time.Sleep(5 * time.Second)
		expect("the API does not answer", "h1")
		a.synced.Store(true)
		a.source.EnqueueAll()
		a.create("q", "u", "Always", nil, "sleep", "infinity")
		time.Sleep(5 * time.Second)
		a.setStatic(static("p", "h2", "sleep", "infinity"))
		time.Sleep(10 * time.Second)
		for _, uid := range a.runs() {
			if uid == "h2" {
				t.Error("the new contents run while the old ones do")
			}
		}
		time.Sleep(35 * time.Second)
		if got := strings.Join(a.runs(), " "); got != "h2 u" && got != "u h2" {
			t.Errorf("after its end: %q", got)
		}
		a.stop()
		a.start(a.remote.Backend())
		time.Sleep(time.Minute)
		if got := strings.Join(a.runs(), " "); got != "h2 u" && got != "u h2" {
			t.Errorf("after a restart: %q", got)
		}
		a.setStatic()
		time.Sleep(time.Minute)
		expect("without its file", "u")
	})
}

// mirrors writes the statuses of static pods to mirror pods.
type mirrors struct{ *api }

func (m mirrors) SetStatus(pod *corev1.Pod, status corev1.PodStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mirror := pod.DeepCopy()
	mirror.UID, mirror.Annotations[corev1.MirrorPodAnnotationKey] = "mirror-"+pod.UID, string(pod.UID)
	if old := m.pods[pod.Namespace+"/"+pod.Name]; old != nil {
		m.checkTransition(pod, &old.Status, &status)
	}
	mirror.Status = status
	m.put(mirror)
	m.source.Enqueue(pod.Namespace + "/" + pod.Name)
}

// Static pods that a drain ended run again with the next process, as their policy has it;
// one whose mirror pod somebody else calls Failed runs on.
func TestStaticPodsRunAgainAfterADrain(t *testing.T) {
	each(t, sim.Config{}, func(t *testing.T, a *api) {
		a.stop()
		a.startAs(context.Background(), a.remote.Backend(), mirrors{a})
		again, once := static("again", "u-again", "sleep", "infinity"), static("once", "u-once", "sleep", "infinity")
		done := static("done", "u-done", "true")
		once.Spec.RestartPolicy, done.Spec.RestartPolicy = corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure
		a.setStatic(again, once, done)
		time.Sleep(5 * time.Second)
		a.engine.Shutdown(t.Context(), syncloop.ShutdownGraces(30*time.Second, 10*time.Second))
		time.Sleep(5 * time.Second)
		for _, name := range []string{"again", "once"} {
			if a.phase(name, corev1.PodFailed); a.get(name).Status.Reason != "Terminated" {
				t.Errorf("%s: %+v", name, a.get(name).Status)
			}
		}
		if runs := a.runs(); len(runs) > 0 {
			t.Fatalf("%s run after the drain", runs)
		}
		a.stop()
		a.synced.Store(false) // the API server answers later than the engine begins
		a.startAs(context.Background(), a.remote.Backend(), mirrors{a})
		time.Sleep(5 * time.Second)
		a.synced.Store(true)
		a.source.EnqueueAll()
		time.Sleep(2 * time.Minute)
		if runs := strings.Join(a.runs(), " "); runs != "u-again" {
			t.Errorf("%q run", runs)
		}
		a.phase("again", corev1.PodRunning)
		a.phase("once", corev1.PodFailed)
		a.phase("done", corev1.PodSucceeded)
		if s := a.get("again").Status; s.Reason != "" || s.Message != "" || s.ContainerStatuses[0].RestartCount != 1 {
			t.Errorf("again: %s %s, %+v", s.Reason, s.Message, s.ContainerStatuses)
		}
		a.update("again", func(pod *corev1.Pod) { pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, "ByHand" })
		time.Sleep(time.Minute)
		if a.restarts("again") != 1 || len(a.runs()) != 1 {
			t.Errorf("a word about the mirror pod ended its static pod: %s runs", a.runs())
		}
	})
}
