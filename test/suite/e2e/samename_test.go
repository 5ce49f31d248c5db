package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// recreations is how often the pod is made anew.
var recreations = lane.Pick(60, 60, 200)

// slowToStop takes a moment to end after TERM.
var slowToStop = []string{"sh", "-c", "trap 'sleep 0.2; exit 0' TERM; sleep 1000000 & wait"}

// TestSameName deletes a pod and makes it anew under its name as soon as the API
// lets it, many times: by turns gracefully, when it is starting or
// running, and by force, when the old one stops while the new one starts. No pod
// is lost, none runs twice, and none that was deleted gracefully is gone from the
// API before its containers are.
func TestSameName(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, worker, 55*time.Second)
	c := theCluster(t)
	h := newContainerdHost(t)
	n := newNode(t, c, "samename", h.section())
	n.run()
	namespace := c.namespace(t, "samename")

	w := &witness{t: t, h: h, asked: map[types.UID]bool{}}
	stop := w.watch(c, namespace)
	s := scenario{name: "again", policy: "Always", argv: slowToStop}
	for i := range recreations {
		pod := s.pod(namespace, n.name)
		if i%4 == 3 {
			// Bound already: a pod that goes while the scheduler (1.36) binds it has
			// its failure patched by name and without its UID, which hits the
			// successor, and deletes it when the API server is in between the two
			// steps of a delete by force.
			pod.Spec.NodeName = n.name
		}
		pod = w.create(c, pod)
		switch i % 4 {
		case 0, 1: // running
			w.running(c, pod)
		case 2: // starting
			wait.Pod(t, c.client, namespace, s.name, patience, "is taken by the node", isTaken)
		case 3: // at once
		}
		w.ask(pod.UID, i%2 == 1)
		if i%2 == 0 {
			graceful(t, c, pod)
			continue
		}
		force(t, c, pod)
	}
	last := w.create(c, s.pod(namespace, n.name))
	w.running(c, last)
	wait.For(t, patience, "only the last pod is left", func() error {
		for _, sandbox := range h.sandboxes(t, "") {
			if sandbox.Metadata.Uid != string(last.UID) {
				return fmt.Errorf("sandbox of %s", sandbox.Metadata.Uid)
			}
		}
		return nil
	})
	w.ask(last.UID, false)
	graceful(t, c, last)
	wait.For(t, patience, "nothing is left", func() error {
		if left := len(h.sandboxes(t, "")); left > 0 {
			return fmt.Errorf("%d sandboxes", left)
		}
		return c.gone(t, namespace, s.name)
	})
	wait.For(t, patience, "the witness saw every deletion, and looked as often", func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.gone != recreations+1 || w.looks < recreations {
			return fmt.Errorf("%d deletions of %d, %d looks", w.gone, recreations+1, w.looks)
		}
		return nil
	})
	stop()
}

// witness watches the API and the remote beside the test.
type witness struct {
	t *testing.T
	h *containerdHost

	mu    sync.Mutex
	asked map[types.UID]bool // deletes that were asked for: whether by force
	gone  int
	looks int
}

// ask notes that the pod will be deleted.
func (w *witness) ask(uid types.UID, force bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[uid] = force
}

// create makes the pod as soon as the name is free.
func (w *witness) create(c *cluster, pod *corev1.Pod) *corev1.Pod {
	w.t.Helper()
	var made *corev1.Pod
	wait.For(w.t, patience, "the name is free", func() (err error) {
		made, err = c.client.CoreV1().Pods(pod.Namespace).Create(w.t.Context(), pod, metav1.CreateOptions{})
		return err
	})
	return made
}

func (w *witness) running(c *cluster, pod *corev1.Pod) {
	w.t.Helper()
	runs := false
	defer func() {
		if !runs {
			w.t.Logf("pod %s\n%s\n%s", pod.UID, c.describe(w.t, pod), w.h.describe(w.t))
		}
	}()
	wait.Pod(w.t, c.client, pod.Namespace, pod.Name, patience, "runs", func(now *corev1.Pod) error {
		if now.UID != pod.UID {
			return fmt.Errorf("uid %s", now.UID)
		}
		return phaseIs(corev1.PodRunning, ready)(now)
	})
	runs = true
}

// watch looks until the returned function is called.
func (w *witness) watch(c *cluster, namespace string) (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	events, err := c.client.CoreV1().Pods(namespace).Watch(
		ctx, metav1.ListOptions{FieldSelector: fields.Everything().String()},
	)
	if err != nil {
		w.t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { w.deletions(events) })
	wg.Go(func() { w.doubles(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		events.Stop()
		wg.Wait()
	})
	w.t.Cleanup(stop) // before the host goes
	return stop
}

// deletions looks at the remote at the moment when a pod goes from the API.
func (w *witness) deletions(events watch.Interface) {
	for e := range events.ResultChan() {
		pod, ok := e.Object.(*corev1.Pod)
		if !ok || e.Type != watch.Deleted {
			continue
		}
		w.mu.Lock()
		forced, asked := w.asked[pod.UID]
		w.gone++
		w.mu.Unlock()
		if !asked {
			w.t.Errorf(
				"pod %s went from the API though nobody deleted it (deletionTimestamp %v)", pod.UID, pod.DeletionTimestamp,
			)
		}
		// The API server lets a pod go at once that no node has taken yet.
		if left := w.h.sandboxes(w.t, string(pod.UID)); len(left) > 0 && !forced {
			w.t.Errorf("pod %s went from the API with %d sandboxes on the remote", pod.UID, len(left))
		}
	}
}

// doubles looks for a pod that runs twice.
func (w *witness) doubles(ctx context.Context) {
	for ctx.Err() == nil {
		running := map[string]string{}
		for _, container := range w.h.containers(w.t, runtimeapi.ContainerState_CONTAINER_RUNNING) {
			uid := container.Labels["io.kubernetes.pod.uid"]
			if other, twice := running[uid]; twice {
				w.t.Errorf("pod %s runs twice: %s and %s", uid, other, container.Id)
			}
			running[uid] = container.Id
		}
		w.mu.Lock()
		w.looks++
		w.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}
