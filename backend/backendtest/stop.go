package backendtest

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/fault"
)

// shortGrace is a grace that a check waits for.
const shortGrace = 2 * time.Second

// runWithGrace also sets the grace in the pod, for remotes that are
// told at the launch.
func (s *suite) runWithGrace(grace time.Duration, programs ...program) backend.Ref {
	s.Helper()
	pod := s.pod(programs...)
	pod.Spec.TerminationGracePeriodSeconds = new(int64(grace / time.Second))
	ref := s.run(pod, 0)
	s.awaitReady(ref)
	return ref
}

// stopUntilDead asks again until the attempt is not live, as the engine does.
func (s *suite) stopUntilDead(ref backend.Ref) {
	s.Helper()
	s.eventually("stopped attempt is not live", func() error {
		err := s.Pods.Stop(s.Context(), ref, 0)
		if err != nil && backend.Class(err) != backend.Class(backend.ErrNotFound) {
			return err
		}
		for _, f := range s.inspect(ref.UID) {
			if f.Attempt == ref.Attempt && f.Live {
				return fmt.Errorf("still live: %+v", f)
			}
		}
		return nil
	})
}

// wantExit checks how a stopped container ended.
func (s *suite) wantExit(f backend.PodFacts, name string, code int32) backend.ContainerFacts {
	s.Helper()
	c := s.facts(f, name, 0)
	if c.ExitCode != code || c.StartedAt.IsZero() {
		s.Errorf("%s: %+v, want exit code %d", name, c, code)
	}
	return c
}

func stopTerm(s *suite) {
	ref := s.runWithGrace(s.longGrace(), untilTerm)
	s.must(s.Pods.Stop(s.Context(), ref, s.longGrace()))
	s.wantExit(s.awaitExited(ref), "c0", 143)
}

func stopKill(s *suite) {
	ref := s.runWithGrace(shortGrace, ignoreTerm)
	asked := time.Now()
	s.must(s.Pods.Stop(s.Context(), ref, shortGrace))
	s.pause(shortGrace)
	c := s.wantExit(s.awaitExited(ref), "c0", 137)
	if c.FinishedAt.Before(asked.Add(shortGrace - s.f.Slack)) {
		s.Errorf("killed %v after Stop, before the grace of %v was over", c.FinishedAt.Sub(asked), shortGrace)
	}
}

func stopNow(s *suite) {
	ref := s.runWithGrace(s.longGrace(), ignoreTerm)
	s.must(s.Pods.Stop(s.Context(), ref, 0))
	s.wantExit(s.awaitExited(ref), "c0", 137)
}

func stopShorter(s *suite) {
	ref := s.runWithGrace(s.longGrace(), ignoreTerm)
	s.must(s.Pods.Stop(s.Context(), ref, s.longGrace()))
	s.pause(settle)
	if f := s.only(ref.UID); !allAppsIn(f, backend.Running) {
		s.Fatalf("ended long before its grace: %+v", f)
	}
	s.must(s.Pods.Stop(s.Context(), ref, time.Second))
	s.pause(time.Second)
	s.wantExit(s.awaitExited(ref), "c0", 137)
}

func stopLonger(s *suite) {
	ref := s.runWithGrace(shortGrace, ignoreTerm)
	s.must(s.Pods.Stop(s.Context(), ref, shortGrace))
	s.must(s.Pods.Stop(s.Context(), ref, s.longGrace()))
	s.pause(shortGrace)
	s.wantExit(s.awaitExited(ref), "c0", 137)
}

func stopUnknown(s *suite) {
	ref := backend.Ref{UID: uuid.NewUUID(), Namespace: "conformance", Name: "unknown"}
	s.wantClass("stop a pod", s.Pods.Stop(s.Context(), ref, 0), backend.ErrNotFound)
	if s.Containers == nil {
		return
	}
	c := backend.ContainerRef{Pod: ref, Name: "c0"}
	s.wantClass("stop a container", s.Containers.Stop(s.Context(), c, 0), backend.ErrNotFound)
}

func stopEndsAttempt(s *suite) {
	programs := s.upTo(untilTerm, untilTerm)
	ref := s.runWithGrace(s.longGrace(), programs...)
	s.must(s.Pods.Stop(s.Context(), ref, s.longGrace()))
	s.awaitExited(ref)
	s.stopUntilDead(ref)
	f := s.only(ref.UID)
	for i := range programs {
		s.wantExit(f, fmt.Sprint("c", i), 143)
	}
	s.wantClass("stop what has ended", s.Pods.Stop(s.Context(), ref, 0), backend.ErrNotFound)
}

func stopLostReply(s *suite) {
	var script fault.Script
	script.Add(fault.PodsStop, 1, fault.Fault{LoseReply: true})
	b := fault.Wrap(s.Backend, &script)
	ref := s.runWithGrace(s.longGrace(), untilTerm)
	s.wantClass("stop with a lost reply", b.Pods.Stop(s.Context(), ref, s.longGrace()), backend.ErrUnavailable)
	s.wantExit(s.awaitExited(ref), "c0", 143)
	s.stopUntilDead(ref)
}

func stopContainer(s *suite) {
	ref := s.runWithGrace(s.longGrace(), untilTerm, untilTerm)
	c0 := s.facts(s.only(ref.UID), "c0", 0).Ref(ref)
	s.must(s.Containers.Stop(s.Context(), c0, s.longGrace()))
	f := s.await(ref, "c0 exited", func(f backend.PodFacts) bool {
		return s.facts(f, "c0", 0).State() == backend.Exited
	})
	s.wantExit(f, "c0", 143)
	if c := s.facts(f, "c1", 0); c.State() != backend.Running || !f.Live {
		s.Errorf("stopping c0 left %+v", f)
	}
	s.wantClass("stop what has ended", s.Containers.Stop(s.Context(), c0, 0), backend.ErrNotFound)
}
