package backendtest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/fault"
)

// held are resources whose requests are their limits.
func held(cpu, memory string) corev1.ResourceRequirements {
	list := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}
	return corev1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}
}

// toResize runs a container with resources and returns its facts.
func (s *suite) toResize() (backend.Ref, *corev1.Pod, backend.ContainerFacts) {
	s.Helper()
	pod := s.pod(untilTerm)
	pod.Spec.Containers[0].Resources = held("100m", "64Mi")
	ref := s.run(pod, 0)
	return ref, pod, s.facts(s.awaitRunning(ref), "c0", 0)
}

// resized is what the engine asks for: the pod has the resources too.
func (s *suite) resized(pod *corev1.Pod, to corev1.ResourceRequirements) backend.ContainerSpec {
	pod = pod.DeepCopy()
	pod.Spec.Containers[0].Resources = to
	return s.containerSpec(pod, pod.Spec.Containers[0], false, 0)
}

// awaitHeld waits until facts show the limits of to, on the container as it was.
func (s *suite) awaitHeld(ref backend.Ref, was backend.ContainerFacts, to corev1.ResourceRequirements) {
	s.Helper()
	f := s.await(ref, fmt.Sprintf("is held to %v", to), func(f backend.PodFacts) bool {
		for _, c := range f.Containers {
			if c.Name == was.Name && c.Resources != nil && c.Resources.Limits.Cpu().Cmp(*to.Limits.Cpu()) == 0 &&
				c.Resources.Limits.Memory().Cmp(*to.Limits.Memory()) == 0 &&
				c.Resources.Requests.Cpu().Cmp(*to.Requests.Cpu()) == 0 {
				return true
			}
		}
		return false
	})
	now := s.facts(f, was.Name, was.Attempt)
	if len(f.Containers) != 1 || now.ID != was.ID || now.State() != backend.Running ||
		!now.StartedAt.Equal(was.StartedAt) || now.Hash != was.Hash {
		s.Errorf("the container was not resized in place:\n was %+v\n now %+v", was, now)
	}
}

// resizeShows: a resize shows in facts, both ways, without a restart.
func resizeShows(s *suite) {
	ref, pod, was := s.toResize()
	for _, to := range []corev1.ResourceRequirements{held("200m", "96Mi"), held("50m", "80Mi")} {
		s.must(s.Resize.Resize(s.Context(), was.Ref(ref), s.resized(pod, to)))
		s.awaitHeld(ref, was, to)
	}
}

// resizePodShows: a container without limits is held to those of its pod, as it starts
// and when the pod is resized.
func resizePodShows(s *suite) {
	pod := s.pod(untilTerm)
	pod.Spec.Resources = new(held("100m", "64Mi"))
	ref := s.run(pod, 0)
	was := s.facts(s.awaitRunning(ref), "c0", 0)
	limits := func(of *corev1.Pod) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Limits: of.Spec.Resources.Limits}
	}
	s.awaitHeld(ref, was, limits(pod))
	for _, to := range []corev1.ResourceRequirements{held("200m", "96Mi"), held("300m", "80Mi")} {
		pod = pod.DeepCopy()
		pod.Spec.Resources = &to
		s.must(s.Resize.Resize(s.Context(), was.Ref(ref), s.containerSpec(pod, pod.Spec.Containers[0], false, 0)))
		s.awaitHeld(ref, was, limits(pod))
	}
}

// resizeTwice: the second time changes nothing.
func resizeTwice(s *suite) {
	ref, pod, was := s.toResize()
	to := held("200m", "96Mi")
	for range 2 {
		s.must(s.Resize.Resize(s.Context(), was.Ref(ref), s.resized(pod, to)))
		s.awaitHeld(ref, was, to)
	}
}

func resizeLostReply(s *suite) {
	ref, pod, was := s.toResize()
	var script fault.Script
	script.Add(fault.ResizeResize, 1, fault.Fault{LoseReply: true})
	b := fault.Wrap(s.Backend, &script)
	spec := s.resized(pod, held("200m", "96Mi"))
	s.wantClass("a lost reply", b.Resize.Resize(s.Context(), was.Ref(ref), spec), backend.ErrUnavailable)
	s.awaitHeld(ref, was, spec.Container.Resources)
	s.must(b.Resize.Resize(s.Context(), was.Ref(ref), spec))
	s.awaitHeld(ref, was, spec.Container.Resources)
}

// resizeNotRunning: only what runs is resized.
func resizeNotRunning(s *suite) {
	pod := s.pod(succeed)
	pod.Spec.Containers[0].Resources = held("100m", "64Mi")
	ref := s.run(pod, 0)
	spec := s.resized(pod, held("200m", "96Mi"))
	exited := s.facts(s.awaitExited(ref), "c0", 0)
	s.wantClass("resize of a container that ended",
		s.Resize.Resize(s.Context(), exited.Ref(ref), spec), backend.ErrNotFound)
	unknown := backend.ContainerRef{
		Pod: backend.Ref{UID: uuid.NewUUID(), Namespace: pod.Namespace, Name: pod.Name}, Name: "c0",
	}
	spec.Pod = spec.Pod.DeepCopy()
	spec.Pod.UID = unknown.Pod.UID
	s.wantClass("resize of a container that never was",
		s.Resize.Resize(s.Context(), unknown, spec), backend.ErrNotFound)
}
