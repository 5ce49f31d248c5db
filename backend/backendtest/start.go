package backendtest

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/fault"
)

// launched launches a pod without starting its containers, and returns the spec
// of its first one.
func (s *suite) launched(programs ...program) (backend.Ref, backend.ContainerSpec) {
	s.Helper()
	pod := s.pod(programs...)
	spec := s.launchSpec(pod, 0)
	s.must(s.Pods.Launch(s.Context(), s.Context(), spec))
	c := spec.Containers[0]
	c.ImageID = s.pull(c.Container.Image)
	return spec.Ref(), c
}

func startTwice(s *suite) {
	ref, spec := s.launched(exitAfter(1, 4))
	s.must(s.Containers.Start(s.Context(), ref, spec))
	first := s.facts(s.only(ref.UID), "c0", 0)
	s.wantContainerIdentity(first, 0)
	s.must(s.Containers.Start(s.Context(), ref, spec))
	ended := s.awaitExited(ref)
	s.must(s.Containers.Start(s.Context(), ref, spec)) // also after its end
	again := s.only(ref.UID)
	if n := len(again.Containers); n != 1 || again.Containers[0].ID != first.ID {
		s.Errorf("%d containers after starting one three times: %+v", n, again.Containers)
	}
	s.must(sameFacts([]backend.PodFacts{ended}, []backend.PodFacts{again}))
}

func startLostReply(s *suite) {
	var script fault.Script
	script.Add(fault.ContainersStart, 1, fault.Fault{LoseReply: true})
	b := fault.Wrap(s.Backend, &script)
	ref, spec := s.launched(untilTerm)
	s.wantClass("start with a lost reply", b.Containers.Start(s.Context(), ref, spec), backend.ErrUnavailable)
	s.reopen()
	s.must(s.Containers.Start(s.Context(), ref, spec))
	if f := s.only(ref.UID); len(f.Containers) != 1 {
		s.Errorf("the replay made a second container: %+v", f.Containers)
	}
}

// startEphemeral starts a container that the pod's spec did not name.
func startEphemeral(s *suite) {
	pod := s.pod(untilTerm)
	ref := s.run(pod, 0)
	s.awaitRunning(ref)
	debugger := s.container("c-debug", untilTerm)
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: debugger.Name, Image: debugger.Image, Command: debugger.Command,
		},
		TargetContainerName: "c0",
	}}
	spec := s.containerSpec(pod, debugger, false, 0)
	spec.Target = "c0"
	s.start(ref, spec)
	s.start(ref, spec)
	f := s.awaitRunning(ref)
	if len(f.Containers) != 2 {
		s.Errorf("%d containers, want c0 and the ephemeral one: %+v", len(f.Containers), f.Containers)
	}
	s.wantContainerIdentity(s.facts(f, debugger.Name, 0), 0)
	s.must(s.Containers.Stop(s.Context(), s.facts(f, debugger.Name, 0).Ref(ref), 0))
	f = s.await(ref, "the ephemeral container ended", func(f backend.PodFacts) bool {
		return s.facts(f, debugger.Name, 0).State() == backend.Exited
	})
	if c := s.facts(f, "c0", 0); c.State() != backend.Running {
		s.Errorf("c0 ended with it: %+v", c)
	}
}

func startUnknown(s *suite) {
	pod := s.pod(untilTerm)
	spec := s.containerSpec(pod, pod.Spec.Containers[0], false, 0)
	spec.ImageID = s.pull(spec.Container.Image)
	ref := backend.Ref{UID: uuid.NewUUID(), Namespace: pod.Namespace, Name: pod.Name}
	s.wantClass("start in a pod that was not launched",
		s.Containers.Start(s.Context(), ref, spec), backend.ErrNotFound)
}

func startNextAttempt(s *suite) {
	ref, spec := s.launched(exitWith(5))
	s.must(s.Containers.Start(s.Context(), ref, spec))
	s.awaitExited(ref)
	spec.Attempt, spec.Round = 1, 3
	s.must(s.Containers.Start(s.Context(), ref, spec))
	f := s.await(ref, "attempt 1 exited", func(f backend.PodFacts) bool {
		return len(f.Containers) == 2 && allAppsIn(f, backend.Exited)
	})
	zero, one := s.facts(f, "c0", 0), s.facts(f, "c0", 1)
	s.wantContainerIdentity(one, 1)
	if zero.ID == one.ID || zero.ExitCode != 5 || one.ExitCode != 5 {
		s.Errorf("two attempts: %+v, %+v", zero, one)
	}
	if zero.Round != 0 || one.Round != 3 {
		s.Errorf("rounds %d and %d, want 0 and 3", zero.Round, one.Round)
	}
	if one.StartedAt.Before(zero.FinishedAt.Add(-s.f.Slack)) {
		s.Errorf("attempt 1 started %v before attempt 0 ended", zero.FinishedAt.Sub(one.StartedAt))
	}
	if !f.Live {
		s.Error("the sandbox ended with its containers")
	}
}
