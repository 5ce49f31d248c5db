package statusmgr

import (
	"context"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/log"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// harness is a running Manager on a fake API in virtual time.
type harness struct {
	*Manager
	t    *testing.T
	api  *fakeAPI
	reg  *prometheus.Registry
	stop func() // ends Run and waits for it

	mu     sync.Mutex
	mayRun map[types.UID]bool
	// answered, if set, happens just after the next answer.
	answered func()
}

// bubble runs f with a started harness under virtual time.
func bubble(t *testing.T, f func(h *harness)) {
	t.Helper()
	bubbleWith(t, Config{}, f)
}

func bubbleWith(t *testing.T, cfg Config, f func(h *harness)) {
	t.Helper()
	log.L.Logger.SetOutput(io.Discard)
	synctest.Test(t, func(t *testing.T) {
		h := &harness{t: t, api: newFakeAPI(t), reg: prometheus.NewRegistry(), mayRun: make(map[types.UID]bool)}
		cfg.Client, cfg.Safety, cfg.Registerer = namespaced{h.api}, h, h.reg
		h.Manager = New(cfg)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if err := h.Run(ctx); err != nil {
				t.Errorf("Run: %v", err)
			}
		}()
		h.stop = func() { cancel(); <-ended }
		defer h.stop()
		f(h)
	})
}

func (h *harness) CouldHaveRunningContainers(uid types.UID) bool {
	h.mu.Lock()
	may, answered := h.mayRun[uid], h.answered
	h.answered = nil
	h.mu.Unlock()
	if answered != nil {
		answered()
	}
	return may
}

func (h *harness) containersMayRun(uid types.UID, may bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mayRun[uid] = may
}

// settle lets everything happen that needs no time to pass.
func (h *harness) settle() { synctest.Wait() }

// pass lets time pass, and what is due then happen.
func (h *harness) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// expect fails the test unless so many calls of each verb came in so far.
func (h *harness) expect(patches, deletes, lists int) {
	h.t.Helper()
	if p, d, l := h.api.count("patch"), h.api.count("delete"), h.api.count("list"); p != patches || d != deletes ||
		l != lists {
		h.t.Fatalf("calls: %d patches, %d deletes, %d lists; want %d, %d, %d", p, d, l, patches, deletes, lists)
	}
}

// empty fails the test if the Manager still holds something of any pod.
func (h *harness) empty() {
	h.t.Helper()
	h.Manager.mu.Lock()
	defer h.Manager.mu.Unlock()
	m := h.Manager
	if n := len(m.entries) + len(m.holders) + len(m.dirty) + len(m.stuck) + len(m.queue.due) + len(m.queue.busy) +
		len(m.queue.queued); n != 0 {
		h.t.Fatalf("state left: %d entries, %d holders, %d dirty, %d stuck, %d due, %d busy, %d queued",
			len(m.entries), len(m.holders), len(m.dirty), len(m.stuck), len(m.queue.due), len(m.queue.busy), len(m.queue.queued))
	}
}

// testNode is the node of all pods.
const testNode = "node"

func testPod(name string, uid types.UID) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid, Generation: 1},
		Spec: corev1.PodSpec{
			NodeName:      testNode,
			RestartPolicy: corev1.RestartPolicyAlways,
			Containers:    []corev1.Container{{Name: "a"}, {Name: "b"}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodPending, QOSClass: corev1.PodQOSBestEffort,
			Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}},
		},
	}
}

func condTrue(t corev1.PodConditionType) corev1.PodCondition {
	return corev1.PodCondition{Type: t, Status: corev1.ConditionTrue}
}

// running is the status of testPod with both containers up.
func running() corev1.PodStatus {
	start := metav1.Now()
	up := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: start}}
	return corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}},
		Conditions: []corev1.PodCondition{
			condTrue(corev1.PodInitialized), condTrue(corev1.PodReady), condTrue(corev1.ContainersReady),
		},
		ContainerStatuses: []corev1.ContainerStatus{
			{Name: "a", State: up, Ready: true}, {Name: "b", State: up, Ready: true},
		},
	}
}

func exited(code int32) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.Now()}}
}

// ended is the status of testPod with both containers gone.
func ended(phase corev1.PodPhase) corev1.PodStatus {
	s := running()
	s.Phase = phase
	for i := range s.ContainerStatuses {
		s.ContainerStatuses[i].State = exited(0)
		s.ContainerStatuses[i].Ready = false
	}
	return s
}

// deleting marks a pod as being deleted gracefully, as the API server does.
func deleting(pod *corev1.Pod) {
	now := metav1.Now()
	grace := int64(30)
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, &grace
	pod.Generation++
}

// forced marks a pod as the first half of a delete with grace 0 does.
func forced(pod *corev1.Pod) {
	deleting(pod)
	pod.DeletionGracePeriodSeconds = new(int64)
}
