package syncloop_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend/fault"
	"github.com/burstlet/burstlet/backend/sim"
)

// TestStartIsFewRoundTrips: where a call takes as long as the remote is far away, a pod
// with volumes, whose image is there, runs after three: its volumes, its sandbox and the
// look for its image are made beside each other, then its container, then the look at
// what became of it. Hints of what the calls do must not make that look wait for another.
func TestStartIsFewRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const far = 100 * time.Millisecond
		a := newAPI(t)
		a.setConfig(config("first"))
		a.remote = sim.New(sim.Config{Record: true, Latency: sim.Latency{API: far}})
		script := &fault.Script{}
		a.start(fault.Wrap(a.remote.Backend(), script))
		defer func() { a.stop() }()
		a.create("warm", "w", "Always", nil, "sleep", "infinity") // pulls the image
		time.Sleep(10*time.Second + 5*far)                        // no listing is under way
		looks, finds := script.Calls(fault.PodsInspect), script.Calls(fault.ImagesFind)
		a.create("p", "u", "Always", func(pod *corev1.Pod) {
			pod.Spec.Volumes = []corev1.Volume{
				{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "c", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: "config"},
				}}},
			}
		}, "sleep", "infinity")
		time.Sleep(3*far + far/10)
		a.phase("p", corev1.PodRunning)
		if n := script.Calls(fault.PodsInspect) - looks; n > 2 {
			t.Errorf("%d looks at the pod, want one after its sandbox and one after its container", n)
		}
		if n := script.Calls(fault.ImagesFind) - finds; n != 1 {
			t.Errorf("the image was looked for %d times, want 1", n)
		}
	})
}
