package backendtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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
	if pulled.ID == "" || pulled.Size == 0 || pulled.ID != found || pulled != again {
		s.Errorf("pulled %+v, found %q, pulled again %+v", pulled, found, again)
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
	got := make(chan types.UID)
	hinted := &hintTimes{last: map[types.UID]time.Time{}}
	defer s.background("the reader of hints", func(ctx context.Context) error { return hinted.read(ctx, got) })()
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
	s.eventually("the stream is open", func() error { // what happens before is not hinted at
		s.run(s.pod(succeed), 0)
		return s.within(time.Second, hinted.any)
	})
	ref := s.run(s.pod(untilTerm), 0) // which only starts
	s.eventually("a hint of a start", func() error { return hinted.since(ref.UID, time.Time{}) })
	long := 2 + 2*int(s.f.Slack/time.Second) // the hints of its start come before Slack
	ref = s.run(s.pod(exitAfter(long, 0)), 0)
	s.pause(time.Duration(long) * time.Second)
	finished := s.facts(s.awaitExited(ref), "c0", 0).FinishedAt.Add(-s.f.Slack)
	s.eventually("a hint of an exit", func() error { return hinted.since(ref.UID, finished) })
}

// hintTimes is when the last hint of each pod came.
type hintTimes struct {
	mu   sync.Mutex
	last map[types.UID]time.Time
}

// read takes hints until its context ends.
func (h *hintTimes) read(ctx context.Context, hints <-chan types.UID) error {
	for {
		select {
		case uid := <-hints:
			h.mu.Lock()
			h.last[uid] = time.Now()
			h.mu.Unlock()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// any is nil when a hint came.
func (h *hintTimes) any() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.last) == 0 {
		return errors.New("there was no hint yet")
	}
	return nil
}

// since is nil when a hint of a pod came at that time or later.
func (h *hintTimes) since(uid types.UID, from time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at, ok := h.last[uid]; !ok || at.Before(from) {
		return fmt.Errorf("the last one came at %v, want one since %v", at, from)
	}
	return nil
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
		"Launch":   func() error { return s.Pods.Launch(ctx, ctx, spec) },
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
