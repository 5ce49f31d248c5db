package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// filling writes 10 kB to its volume, which has room for ten times as much, and on and on
// once the file go is there.
const filling = `fill() { i=0; while [ $i -lt 100 ]; do
	echo 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
	i=$((i+1)); done; }
fill >> /v/f
while [ ! -e /v/go ]; do sleep 0.1; done
while :; do fill >> /v/f; sleep 0.05; done`

// TestEvictedWhileAway: nobody is connected to a host while a pod on it outgrows its volume.
// The host stops it, and whoever connects again says that it was evicted, once. A pod that
// keeps to its limit runs on.
func TestEvictedWhileAway(t *testing.T) {
	lane.From(t, lane.Gate)
	t.Parallel() // else those before its subtests in line never have their turn
	for _, tt := range []struct {
		name  string
		takes time.Duration
		// away cuts the node off its host, which back ends.
		away, back func(*node, *containerdHost)
	}{
		{
			"burstlet killed", 45 * time.Second,
			func(n *node, _ *containerdHost) { n.kill() }, func(n *node, _ *containerdHost) { n.run() },
		},
		{ // the host learns of it when it has heard nothing for a minute
			"link cut", 140 * time.Second,
			func(_ *node, h *containerdHost) { h.Link().Cut() }, func(_ *node, h *containerdHost) { h.Link().Restore() },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			turn(t, waiter, tt.takes)
			c := theCluster(t)
			h := newContainerdHost(t)
			before := h.traces(t)
			n := newNode(t, c, fmt.Sprint("evicts-", len(tt.name)), h.section())
			n.run()
			l := &life{T: t, c: c, n: n, namespace: c.namespace(t, n.name), remote: remote{mounts: true}}
			greedy, modest := l.filler("greedy"), l.filler("modest")

			tt.away(n, h)
			h.write(t, volumeOnHost(greedy, "go"), "")
			h.stops(t, greedy)
			l.phase(greedy.Name, corev1.PodRunning)
			tt.back(n, h)

			l.evicted(h, greedy)
			pod, err := l.pods().Get(t.Context(), modest.Name, metav1.GetOptions{})
			l.must(err)
			if pod.Status.ContainerStatuses[0].RestartCount != 0 || h.containersOf(t, modest) != 1 {
				t.Errorf("the pod beside it: %s", states(&pod.Status))
			}
			for _, pod := range []*corev1.Pod{greedy, modest} {
				l.must(l.pods().Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(1))}))
				l.untilGone(pod.Name)
			}
			h.empty(t)
			n.stop()
			h.sameTraces(t, before, "its pods were deleted")
		})
	}
}

// stops waits until nothing of a pod runs that has outgrown its volume, and writes there.
func (h *containerdHost) stops(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	wait.For(t, patience, "the host stops the pod that outgrew its volume", func() error {
		if running := h.containersOf(t, pod); running > 0 {
			return fmt.Errorf("%d containers run", running)
		}
		return nil
	})
	first := h.size(t, volumeOnHost(pod, "f"))
	if first <= 100<<10 {
		t.Errorf("it was stopped with %d bytes", first)
	}
	if now := h.size(t, volumeOnHost(pod, "f")); now != first {
		t.Errorf("it goes on writing: %d bytes, then %d", first, now)
	}
}

// evicted waits until the API says so, once, and nothing of the pod is on its host.
func (l *life) evicted(h *containerdHost, pod *corev1.Pod) {
	l.Helper()
	l.comes(pod.Name, patience, func(pod *corev1.Pod) error {
		const want = `Usage of EmptyDir volume "v" exceeds the limit "100Ki". `
		s := pod.Status
		if s.Phase != corev1.PodFailed || s.Reason != "Evicted" || s.Message != want {
			return fmt.Errorf("%s %s: %q", s.Phase, s.Reason, s.Message)
		}
		return nil
	})
	wait.For(l.T, patience, "nothing of it is on the host", func() error {
		if left := h.sandboxes(l.T, string(pod.UID)); len(left) > 0 {
			return fmt.Errorf("%d sandboxes", len(left))
		}
		if left := h.matches(podsOnHost + "/" + string(pod.UID)); len(left) > 0 {
			return fmt.Errorf("%q", left)
		}
		return nil
	})
	pod, err := l.pods().Get(l.Context(), pod.Name, metav1.GetOptions{})
	l.must(err)
	if s := pod.Status.ContainerStatuses[0]; s.RestartCount != 0 || s.State.Terminated == nil {
		l.Errorf("its container: %s", states(&pod.Status))
	}
	if told := l.eventCount(pod, "Evicted"); told != 1 {
		l.Errorf("it was told of %d times", told)
	}
}

// filler is a pod that fills its volume when it is told to, and is ready.
func (l *life) filler(name string) *corev1.Pod {
	l.Helper()
	pod := l.pod([]string{"sh", "-c", filling}, mount("v", corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("100Ki"))},
	}))
	pod.Name = name
	pod = l.create(pod)
	l.comes(name, patience, isReady)
	return pod
}

func volumeOnHost(pod *corev1.Pod, file string) string {
	return filepath.Join(podsOnHost, string(pod.UID), "volumes", "v", file)
}

// size is that of a file of the host.
func (h *containerdHost) size(t *testing.T, file string) int64 {
	t.Helper()
	info, err := os.Stat(h.Path(file))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// containersOf are those of a pod that run.
func (h *containerdHost) containersOf(t *testing.T, pod *corev1.Pod) (running int) {
	t.Helper()
	for _, c := range h.containers(t, runtimeapi.ContainerState_CONTAINER_RUNNING) {
		if c.GetLabels()["io.kubernetes.pod.uid"] == string(pod.UID) {
			running++
		}
	}
	return running
}

// eventCount is how often the API was told so of a pod.
func (l *life) eventCount(pod *corev1.Pod, reason string) (count int32) {
	l.Helper()
	list, err := l.c.client.CoreV1().Events(l.namespace).List(l.Context(), metav1.ListOptions{})
	l.must(err)
	for _, e := range list.Items {
		if e.InvolvedObject.UID == pod.UID && e.Reason == reason {
			count += max(1, e.Count)
		}
	}
	return count
}
