package backendtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

func imageFindAndPull(s *suite) {
	_, err := s.Images.Find(s.Context(), s.f.MissingImage)
	s.wantClass("find", err, backend.ErrNotFound)
	pulled, err := s.Images.Pull(s.Context(), s.f.Image, nil)
	s.must(err)
	found, err := s.Images.Find(s.Context(), s.f.Image)
	s.must(err)
	again, err := s.Images.Pull(s.Context(), s.f.Image, nil)
	s.must(err)
	if pulled == "" || pulled != found || pulled != again {
		s.Errorf("ids: pulled %q, found %q, pulled again %q", pulled, found, again)
	}
	_, err = s.Images.Pull(s.Context(), "Not/A:Valid:Name", nil)
	s.wantClass("pull a name that cannot be", err, backend.ErrInvalid)
}

// imageMissing: an image that is not there may be pushed a moment later, so the
// error is transient, and a pod that runs as one ends without having run.
func imageMissing(s *suite) {
	if s.Images != nil {
		_, err := s.Images.Pull(s.Context(), s.f.MissingImage, nil)
		if got := backend.Class(err); got != "Transient" {
			s.Errorf("pull: error of class %q (%v), want Transient", got, err)
		}
		return
	}
	pod := s.pod(untilTerm)
	pod.Spec.Containers[0].Image = s.f.MissingImage
	f := s.awaitDead(s.run(pod, 0))
	if c := s.facts(f, "c0", 0); !c.NeverRan() || c.Reason != "ErrImagePull" || c.Message == "" {
		s.Errorf("facts %+v, want never ran, ErrImagePull and a message", c)
	}
}

func eventsHint(s *suite) {
	got := make(chan types.UID, 1024)
	end := s.background("Events", func(ctx context.Context) error {
		for ctx.Err() == nil {
			if err := s.Events.Run(ctx, got); err != nil && ctx.Err() == nil {
				s.Logf("the stream of hints broke and begins again: %v", err)
				s.pause(s.f.Poll)
			}
		}
		return ctx.Err()
	})
	defer end()
	s.pause(settle) // until the stream is open
	ref := s.run(s.pod(exitAfter(2, 0)), 0)
	s.awaitHint(got, ref.UID, "its start")
	s.await(ref, "runs", func(f backend.PodFacts) bool { return allAppsIn(f, backend.Running) })
	drain(got)
	s.awaitExited(ref)
	s.awaitHint(got, ref.UID, "its exit")
}

// awaitHint waits for a hint about one pod.
func (s *suite) awaitHint(hints <-chan types.UID, uid types.UID, what string) {
	s.Helper()
	timeout := time.NewTimer(s.f.Eventually)
	defer timeout.Stop()
	for {
		select {
		case got := <-hints:
			if got == uid {
				return
			}
		case <-timeout.C:
			s.Fatalf("no hint of %s within %v", what, s.f.Eventually)
		}
	}
}

func drain(hints <-chan types.UID) {
	for {
		select {
		case <-hints:
		default:
			return
		}
	}
}

func nodeDescribe(s *suite) {
	f, err := s.Node.Describe(s.Context())
	s.must(err)
	if f.OS == "" || f.Arch == "" {
		s.Errorf("OS %q, Arch %q", f.OS, f.Arch)
	}
	if l := s.Limits; l.Runtime == "" || !strings.HasPrefix(f.RuntimeVersion, l.Runtime+"://") {
		s.Errorf("RuntimeVersion %q does not begin with Limits.Runtime %q", f.RuntimeVersion, l.Runtime)
	}
	if l := s.Limits; l.Call <= 0 || l.Relist <= 0 || l.Settle < 0 || l.MaxGrace < 0 || (s.Images != nil && l.Pull <= 0) {
		s.Errorf("limits %+v", l)
	}
	if !f.NetworkReady {
		s.Errorf("the network is not ready: %s", f.Message)
	}
}

func checkPure(s *suite) {
	plain := s.pod(succeed)
	odd := plain.DeepCopy()
	odd.Spec.HostIPC = true
	root := corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
	odd.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: root}}
	for _, pod := range []*corev1.Pod{plain, odd} {
		before := pod.DeepCopy()
		first := s.Check.Check(pod)
		if diff := cmp.Diff(first, s.Check.Check(pod)); diff != "" {
			s.Errorf("two answers for one pod:\n%s", diff)
		}
		if diff := cmp.Diff(before, pod); diff != "" {
			s.Errorf("Check changed the pod:\n%s", diff)
		}
		for _, r := range first {
			if r.Field == "" || r.Why == "" {
				s.Errorf("refusal without field or reason: %+v", r)
			}
		}
	}
	if r := s.Check.Check(plain); len(r) > 0 {
		s.Errorf("a plain pod is refused: %+v", r)
	}
}

// contextEnded: calls end with their context, and conclude nothing from it.
func contextEnded(s *suite) {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	spec := s.launchSpec(s.pod(succeed), 0)
	calls := map[string]func() error{
		"Launch":   func() error { return s.Pods.Launch(ctx, spec) },
		"List":     func() error { _, err := s.Pods.List(ctx); return err },
		"Inspect":  func() error { _, err := s.Pods.Inspect(ctx, []types.UID{spec.Pod.UID}); return err },
		"Describe": func() error { _, err := s.Node.Describe(ctx); return err },
	}
	for name, call := range calls {
		begun := time.Now()
		err := call()
		if took := time.Since(begun); took > s.f.Eventually/2 {
			s.Errorf("%s took %v to see that its context has ended", name, took)
		}
		switch class := backend.Class(err); class {
		case "Unavailable", "Transient":
		default:
			s.Errorf("%s: error of class %q (%v), want Unavailable or none", name, class, err)
		}
	}
	if s.Events != nil {
		s.eventually("Events.Run returns", func() error {
			if err := s.Events.Run(ctx, make(chan types.UID)); err != nil && !errors.Is(err, context.Canceled) {
				return fmt.Errorf("run events: %w", err)
			}
			return nil
		})
	}
}
