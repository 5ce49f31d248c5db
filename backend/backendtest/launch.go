package backendtest

import (
	"errors"
	"sync"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/fault"
)

// only returns the single attempt of a pod as the next List and Inspect say it,
// without waiting.
func (s *suite) only(uid types.UID) backend.PodFacts {
	s.Helper()
	listed, inspected := s.listed(uid), s.inspect(uid)
	if len(listed) != 1 || len(inspected) != 1 {
		s.Fatalf("want exactly one attempt of pod %s\nList: %+v\nInspect: %+v", uid, listed, inspected)
	}
	return listed[0]
}

// wantIdentity checks all that a restarted engine reads from a listing.
func (s *suite) wantIdentity(f backend.PodFacts, pod *corev1.Pod, attempt int) {
	s.Helper()
	want := backend.Ref{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Attempt: attempt, ID: f.ID}
	if diff := cmp.Diff(want, f.Ref); diff != "" {
		s.Errorf("identity (-want +got):\n%s", diff)
	}
	if f.ID == "" {
		s.Error("the attempt has no id")
	}
}

func (s *suite) wantContainerIdentity(c backend.ContainerFacts, attempt int) {
	s.Helper()
	if c.Attempt != attempt || c.Hash != hashOf(c.Name) || c.Image == "" {
		s.Errorf("container facts %+v, want attempt %d, hash %s and an image", c, attempt, hashOf(c.Name))
	}
}

func launchIdentity(s *suite) {
	pod := s.pod(s.upTo(untilTerm, untilTerm)...)
	ref := s.run(pod, 0)
	f := s.only(pod.UID)
	s.wantIdentity(f, pod, 0)
	if !f.Live {
		s.Error("not live right after its launch")
	}
	for _, c := range pod.Spec.Containers {
		s.wantContainerIdentity(s.facts(f, c.Name, 0), 0)
	}
	s.awaitRunning(ref)
	s.wantIdentity(s.only(pod.UID), pod, 0)
}

func launchTwice(s *suite) {
	pod := s.pod(untilTerm)
	spec := s.launchSpec(pod, 0)
	s.must(s.Pods.Launch(s.Context(), s.Context(), spec))
	first := s.only(pod.UID)
	s.must(s.Pods.Launch(s.Context(), s.Context(), spec))
	if again := s.only(pod.UID); again.ID != first.ID {
		s.Errorf("a second launch made %s beside %s", again.ID, first.ID)
	}
}

func launchConcurrently(s *suite) {
	spec := s.launchSpec(s.pod(untilTerm), 0)
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			_ = s.within(s.f.Eventually, func() error { // one may be told to come again
				errs[i] = s.Pods.Launch(s.Context(), s.Context(), spec)
				if backend.Class(errs[i]) == backend.Class(backend.ErrThrottled) {
					return errs[i]
				}
				return nil
			})
		})
	}
	wg.Wait()
	s.must(errors.Join(errs...))
	s.only(spec.Pod.UID)
}

func launchLostReply(s *suite) {
	var script fault.Script
	script.Add(fault.PodsLaunch, 1, fault.Fault{LoseReply: true})
	b := fault.Wrap(s.Backend, &script)
	spec := s.launchSpec(s.pod(untilTerm), 0)
	s.wantClass("launch with a lost reply", b.Pods.Launch(s.Context(), s.Context(), spec), backend.ErrUnavailable)
	first := s.only(spec.Pod.UID)
	s.reopen() // the replay is often a restarted engine's
	s.must(s.Pods.Launch(s.Context(), s.Context(), spec))
	if again := s.only(spec.Pod.UID); again.ID != first.ID {
		s.Errorf("the replay made %s beside %s", again.ID, first.ID)
	}
}

func launchAfterError(s *suite) {
	var script fault.Script
	script.Fail(fault.PodsLaunch, 2, backend.Errorf(backend.ErrThrottled, "injected"))
	b := fault.Wrap(s.Backend, &script)
	spec := s.launchSpec(s.pod(untilTerm), 0)
	for range 2 {
		s.wantClass("launch", b.Pods.Launch(s.Context(), s.Context(), spec), backend.ErrThrottled)
		if f := s.inspect(spec.Pod.UID); len(f) != 0 {
			s.Errorf("a call that was not made left %+v", f)
		}
	}
	s.must(b.Pods.Launch(s.Context(), s.Context(), spec))
	s.only(spec.Pod.UID)
}

func launchNextAttempt(s *suite) {
	pod := s.pod(exitWith(3))
	first := s.run(pod, 0)
	s.awaitExited(first)
	s.stopUntilDead(first)
	second := s.run(pod, 1)
	f := s.awaitExited(second)
	s.wantIdentity(f, pod, 1)
	c := s.facts(f, "c0", 1)
	s.wantContainerIdentity(c, 1)
	if c.ExitCode != 3 {
		s.Errorf("exit code %d, want 3", c.ExitCode)
	}
	for _, old := range s.listed(pod.UID) {
		if old.Attempt == 0 && (old.Live || old.ID == f.ID) {
			s.Errorf("attempt 0 is %+v beside attempt 1 %+v", old, f)
		}
	}
}

func launchAddresses(s *suite) {
	seen := map[string]string{}
	for range 3 {
		pod := s.pod(untilTerm)
		f := s.await(s.run(pod, 0), "has an address", func(f backend.PodFacts) bool { return len(f.IPs) > 0 })
		for _, ip := range f.IPs {
			if other := seen[ip]; other != "" {
				s.Errorf("pods %s and %s have the address %s", other, pod.Name, ip)
			}
			seen[ip] = pod.Name
		}
	}
}
