package syncloop_test

import (
	"fmt"
	"math/rand"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// What pods ask for in TestRandomLives. The node has 1000 cpus: two pods of the
// larger sizes do not always fit, those of 1 always do, one of 1200 never. What a
// container is started with of memory says what it uses: half.
var (
	cpus     = []string{"1", "300", "650", "650", "1200"}
	memories = []string{"16Mi", "64Mi", "96Mi"}
)

const (
	nodeCPUs = 1000
	// names is how many names of pods there are.
	names = 8
)

// size gives two pods in three requests, and some of these a policy. It draws for
// itself: what else a step draws is as it was without.
func (s *schedule) size(pod *corev1.Pod, k kind) {
	r := rand.New(rand.NewSource(s.seed*1_000_003 + int64(s.serial)))
	if r.Intn(3) == 0 {
		return
	}
	s.sized[pod.UID] = true
	asks("1", "64Mi")(pod)
	if k.policy == corev1.RestartPolicyAlways && r.Intn(3) == 0 { // the API allows it for no other
		restartsFor([]corev1.ResourceName{"cpu", "memory"}[r.Intn(2)])(pod)
	}
}

// inAPI are the pods that the API has, by UID.
func (s *schedule) inAPI() map[types.UID]*corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	pods := map[types.UID]*corev1.Pod{}
	for _, pod := range s.pods {
		pods[pod.UID] = pod
	}
	return pods
}

// overcommitted looks whether the pods of the API are held to more than there is.
func (s *schedule) overcommitted() {
	s.t.Helper()
	pods, sum := s.inAPI(), int64(0)
	for _, f := range s.remote.Facts() {
		for _, c := range f.Containers {
			if pods[f.UID] != nil && c.State() == backend.Running && c.Resources != nil {
				sum += c.Resources.Requests.Cpu().Value()
			}
		}
	}
	if sum > nodeCPUs {
		s.t.Fatalf("the pods are held to %d cpus, the node has %d", sum, nodeCPUs)
	}
}

// resizable is true for a pod that was admitted with requests: before that, what it
// asks for decides whether it is.
func (s *schedule) resizable(pod *corev1.Pod) bool {
	return pod != nil && s.sized[pod.UID] && len(pod.Status.ContainerStatuses) > 0
}

// contend has, in every second schedule of each granularity, all pods ask for more
// than they can have together.
func (s *schedule) contend() {
	for n := range names {
		name := fmt.Sprint("p", n)
		if s.seed%4 < 2 && s.resizable(s.get(name)) {
			s.resize(name, "650", "96Mi")
		}
	}
}

// makeRoom ends one of the large pods: the next in turn is to have what it waits for.
func (s *schedule) makeRoom() {
	for n := range names {
		name := fmt.Sprint("p", n)
		pod := s.get(name)
		if pod == nil || over(pod) || len(pod.Status.ContainerStatuses) == 0 {
			continue
		}
		if pod.Status.ContainerStatuses[0].AllocatedResources.Cpu().Value() > 1 {
			s.delete(name, 0)
			return
		}
	}
}

// resizesSettled: every pod has what it is allocated, and is allocated what it asks
// for, or what is in the way is told and is true.
func (s *schedule) resizesSettled() {
	pods, allocated := s.inAPI(), int64(0)
	for _, pod := range pods {
		if len(pod.Status.ContainerStatuses) > 0 && !over(pod) {
			allocated += pod.Status.ContainerStatuses[0].AllocatedResources.Cpu().Value()
		}
	}
	for _, f := range s.remote.Facts() {
		pod := pods[f.UID]
		if pod == nil || over(pod) || !s.sized[f.UID] || !f.Live {
			continue
		}
		for _, c := range f.Containers {
			if c.Name == "a" && c.State() == backend.Running {
				s.resizeSettled(pod, &c, allocated)
			}
		}
	}
}

func over(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

func (s *schedule) resizeSettled(pod *corev1.Pod, c *backend.ContainerFacts, allocated int64) {
	told := &pod.Status.ContainerStatuses[0]
	has, asks := told.AllocatedResources.Cpu().Value(), pod.Spec.Containers[0].Resources.Requests.Cpu().Value()
	pending, busy := resizeCondition(pod, corev1.PodResizePending), resizeCondition(pod, corev1.PodResizeInProgress)
	switch {
	case busy != nil && busy.Reason != "Error":
		s.t.Errorf("pod %s is being resized for ever: %+v", pod.UID, busy)
	case busy == nil && c.Resources.Requests.Cpu().Value() != has:
		s.t.Errorf("pod %s is held to %v, is told to be allocated %d cpus", pod.UID, c.Resources, has)
	case busy == nil && told.Resources.Limits.Memory().Cmp(*c.Resources.Limits.Memory()) != 0:
		s.t.Errorf("pod %s is held to %v, is told to be held to %v", pod.UID, c.Resources, told.Resources)
	case has != asks && pending == nil:
		s.t.Errorf("pod %s asks for %d cpus, has %d, and nobody says why", pod.UID, asks, has)
	case has == asks && pending != nil && !s.podUnit:
		s.t.Errorf("pod %s has what it asks for: %+v", pod.UID, pending)
	case pending != nil && pending.Reason == "Deferred" && allocated+asks-has <= nodeCPUs:
		s.t.Errorf(
			"pod %s could have %d cpus: %d of %d are allocated: %s", pod.UID, asks, allocated, nodeCPUs, pending.Message,
		)
	}
}
