package backendtest

import (
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/burstlet/burstlet/backend"
)

// sameFacts says how two listings differ; nil and empty are the same.
func sameFacts(a, b []backend.PodFacts) error {
	return alikeFacts(a, b, 0)
}

// alikeFacts is sameFacts where times may be off: a remote that does not tell when
// something was has a restarted engine see it anew.
func alikeFacts(a, b []backend.PodFacts, off time.Duration) error {
	if diff := cmp.Diff(a, b, cmpopts.EquateEmpty(), cmpopts.EquateApproxTime(off)); diff != "" {
		return fmt.Errorf("facts differ:\n%s", diff)
	}
	return nil
}

// mixed is a pod whose first container runs while the second, where there may be
// one, has exited.
func (s *suite) mixed() *corev1.Pod {
	s.Helper()
	pod := s.pod(s.upTo(untilTerm, exitWith(3))...)
	s.await(s.run(pod, 0), "c0 runs and c1 exited", func(f backend.PodFacts) bool {
		return len(f.Containers) == len(pod.Spec.Containers) && allStarted(f) &&
			f.Containers[0].State() == backend.Running &&
			(len(f.Containers) < 2 || f.Containers[1].State() == backend.Exited)
	})
	return pod
}

func inspectEqualsList(s *suite) {
	pod := s.mixed()
	s.eventually("Inspect says what List says", func() error {
		return sameFacts(s.listed(pod.UID), s.inspect(pod.UID))
	})
}

func inspectUnknown(s *suite) {
	for _, uids := range [][]types.UID{nil, {uuid.NewUUID()}} {
		facts, err := s.Pods.Inspect(s.Context(), uids)
		if err != nil || len(facts) != 0 {
			s.Errorf("Inspect of %v: %+v, %v, want nothing", uids, facts, err)
		}
	}
}

func inspectSeveral(s *suite) {
	a, b, other := s.pod(untilTerm), s.pod(untilTerm), s.pod(untilTerm)
	s.run(a, 0)
	s.run(b, 0)
	s.run(other, 0)
	facts, err := s.Pods.Inspect(s.Context(), []types.UID{b.UID, uuid.NewUUID(), a.UID})
	s.must(err)
	got := map[types.UID]int{}
	for _, f := range facts {
		got[f.UID]++
	}
	if diff := cmp.Diff(map[types.UID]int{a.UID: 1, b.UID: 1}, got); diff != "" {
		s.Errorf("attempts by pod (-want +got):\n%s", diff)
	}
}

func factsAfterReopen(s *suite) {
	pod := s.mixed()
	var before []backend.PodFacts
	s.eventually("the facts are at rest", func() error {
		before = s.listed(pod.UID)
		s.pause(s.f.Poll)
		return sameFacts(before, s.listed(pod.UID))
	})
	s.reopen()
	s.eventually("the facts are those before the restart", func() error {
		return alikeFacts(before, s.listed(pod.UID), s.f.Slack)
	})
	s.must(alikeFacts(before, s.inspect(pod.UID), s.f.Slack))
}

func allStarted(f backend.PodFacts) bool {
	for _, c := range f.Containers {
		if c.StartedAt.IsZero() {
			return false
		}
	}
	return true
}
