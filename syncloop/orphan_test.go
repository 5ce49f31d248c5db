package syncloop_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/fault"
	"github.com/burstlet/burstlet/backend/sim"
)

// forlorn runs an engine that lists the pods at 0, 10 and 20 s and so on, and the
// volumes each minute, beside a remote on which leave leaves something one second later:
// of a pod that the API does not have, or not yet.
func forlorn(t *testing.T, leave func(backend.Backend, *corev1.Pod) error, f func(*api, *fault.Script, *corev1.Pod)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, script := newAPI(t), &fault.Script{}
		a.remote = sim.New(sim.Config{Record: true, NoEvents: true})
		b := fault.Wrap(a.remote.Backend(), script)
		b.Limits.Relist = 10 * time.Second
		a.start(b)
		defer func() { a.stop() }()
		time.Sleep(time.Second)
		pod := &corev1.Pod{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{Name: "a", Image: "busybox"}},
		}}
		pod.Namespace, pod.Name, pod.UID = "ns", "p", "u"
		if err := leave(a.remote.Backend(), pod); err != nil {
			t.Fatal(err)
		}
		f(a, script, pod)
	})
}

func launched(b backend.Backend, pod *corev1.Pod) error {
	return b.Pods.Launch(context.Background(), context.Background(), backend.LaunchSpec{Pod: pod})
}

func placed(b backend.Backend, pod *corev1.Pod) error {
	return b.Files.Place(context.Background(), backend.VolumeSpec{
		Pod: pod, Name: "v", Source: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, Hash: "h",
	})
}

func (a *api) has(uid types.UID) bool {
	for _, f := range a.remote.Facts() {
		if f.UID == uid {
			return true
		}
	}
	return false
}

// ends counts the calls that end a pod.
func ends(script *fault.Script) int {
	return script.Calls(fault.PodsStop) + script.Calls(fault.PodsRemove)
}

// A pod that the API does not have is ended when two complete listings showed it:
// one may be older than what the API told, and one that failed says nothing.
func TestPodsAreOrphansAfterTwoListings(t *testing.T) {
	forlorn(t, launched, func(a *api, script *fault.Script, pod *corev1.Pod) {
		script.Add(fault.PodsList, 1, fault.Fault{})              // at 10 s
		script.Add(fault.PodsList, 1, fault.Fault{Partial: true}) // at 20 s
		time.Sleep(28 * time.Second)
		if n := script.Calls(fault.PodsList); n != 3 || !a.has(pod.UID) || ends(script) > 0 {
			t.Errorf("after %d listings, of which one was complete and showed it: there %v, %d calls to end it; want it "+
				"left alone",
				n, a.has(pod.UID), ends(script))
		}
		time.Sleep(10 * time.Second) // the second at 30 s
		if a.has(pod.UID) {
			t.Error("two listings showed it, and it is still there")
		}
	})
}

func TestPodsThatTheAPIShowsAfterTheFirstListingAreNoOrphans(t *testing.T) {
	forlorn(t, launched, func(a *api, script *fault.Script, pod *corev1.Pod) {
		time.Sleep(15 * time.Second)
		a.create(pod.Name, pod.UID, "Always", nil, forever...)
		time.Sleep(time.Minute)
		a.phase(pod.Name, corev1.PodRunning)
		if n := ends(script); n > 0 || !a.has(pod.UID) {
			t.Errorf("%d calls to end the pod, there %v", n, a.has(pod.UID))
		}
	})
}

// So it is with volumes of which no pod is left.
func TestVolumesAreOrphansAfterTwoListings(t *testing.T) {
	forlorn(t, placed, func(a *api, script *fault.Script, pod *corev1.Pod) {
		time.Sleep(118 * time.Second) // listed at 60 s
		if _, there := a.remote.Volume(pod.UID, "v"); !there || script.Calls(fault.FilesVolumes) != 2 {
			t.Errorf(
				"after %d listings, of which one showed it: there %v; want it left alone", script.Calls(fault.FilesVolumes), there,
			)
		}
		time.Sleep(time.Minute) // and at 120 s
		if _, there := a.remote.Volume(pod.UID, "v"); there {
			t.Error("two listings showed it, and it is still there")
		}
	})
}

func TestVolumesOfPodsThatTheAPIShowsAfterTheFirstListingAreNoOrphans(t *testing.T) {
	forlorn(t, placed, func(a *api, script *fault.Script, pod *corev1.Pod) {
		time.Sleep(90 * time.Second)
		a.create(pod.Name, pod.UID, "Always", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{
				Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
			}}
		}, forever...)
		time.Sleep(5 * time.Minute)
		a.phase(pod.Name, corev1.PodRunning)
		if n := script.Calls(fault.FilesClear); n > 0 {
			t.Errorf("%d calls to clear its volumes", n)
		}
	})
}
