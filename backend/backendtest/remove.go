package backendtest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/fault"
)

// wantGone checks that nothing is left of a pod.
func (s *suite) wantGone(ref backend.Ref) {
	s.Helper()
	if l, i := s.listed(ref.UID), s.inspect(ref.UID); len(l)+len(i) != 0 {
		s.Errorf("left after the removal\nList: %+v\nInspect: %+v", l, i)
	}
	s.wantClass("remove once more", s.Pods.Remove(s.Context(), ref), backend.ErrNotFound)
	s.wantClass("stop what is gone", s.Pods.Stop(s.Context(), ref, 0), backend.ErrNotFound)
}

func removeUntilNotFound(s *suite) {
	ref := s.run(s.pod(succeed), 0)
	s.awaitExited(ref)
	s.stopUntilDead(ref)
	s.removed(s.Context(), ref)
	s.wantGone(ref)
}

func removeRunning(s *suite) {
	ref := s.runWithGrace(s.longGrace(), ignoreTerm)
	s.removed(s.Context(), ref)
	s.wantGone(ref)
}

func removeUnknown(s *suite) {
	ref := backend.Ref{UID: uuid.NewUUID(), Namespace: "conformance", Name: "unknown"}
	s.wantClass("remove a pod", s.Pods.Remove(s.Context(), ref), backend.ErrNotFound)
	if s.Containers == nil {
		return
	}
	c := backend.ContainerRef{Pod: ref, Name: "c0"}
	s.wantClass("remove a container", s.Containers.Remove(s.Context(), c), backend.ErrNotFound)
}

func removeLostReply(s *suite) {
	var script fault.Script
	script.Add(fault.PodsRemove, 1, fault.Fault{LoseReply: true})
	b := fault.Wrap(s.Backend, &script)
	ref := s.runWithGrace(s.longGrace(), untilTerm)
	s.wantClass("remove with a lost reply", b.Pods.Remove(s.Context(), ref), backend.ErrUnavailable)
	s.removed(s.Context(), ref)
	s.wantGone(ref)
}

func removeContainer(s *suite) {
	ref := s.run(s.pod(succeed, untilTerm), 0)
	f := s.await(ref, "c0 exited and c1 runs", func(f backend.PodFacts) bool {
		return len(f.Containers) == 2 && s.facts(f, "c0", 0).State() == backend.Exited &&
			s.facts(f, "c1", 0).State() == backend.Running
	})
	c0 := s.facts(f, "c0", 0).Ref(ref)
	s.eventually("Containers.Remove returns NotFound", func() error {
		err := s.Containers.Remove(s.Context(), c0)
		if backend.Class(err) == backend.Class(backend.ErrNotFound) {
			return nil
		}
		return fmt.Errorf("returned class %q: %w", backend.Class(err), err)
	})
	f = s.only(ref.UID)
	if len(f.Containers) != 1 || s.facts(f, "c1", 0).State() != backend.Running {
		s.Errorf("after the removal of c0: %+v", f.Containers)
	}
}

func removeLeavesOthers(s *suite) {
	gone, kept := s.runWithGrace(s.longGrace(), ignoreTerm), s.runWithGrace(s.longGrace(), untilTerm)
	var before []backend.PodFacts
	s.eventually("the facts are at rest", func() error {
		before = s.inspect(kept.UID)
		s.pause(s.f.Poll)
		return sameFacts(before, s.inspect(kept.UID))
	})
	s.removed(s.Context(), gone)
	s.wantGone(gone)
	s.must(sameFacts(before, s.inspect(kept.UID)))
}
