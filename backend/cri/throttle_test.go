package cri

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/throttle"
)

// TestStepsOfPodsSlowStreams: what makes a pod or ends it does, looking does not.
func TestStepsOfPodsSlowStreams(t *testing.T) {
	w := newWorld(t)
	r, _ := w.connect(t)
	b := r.backend()
	pod := testPod("taken")
	ref := launchSpec(pod, 0).Ref()
	step := func(what string, wanted bool, f func() error) {
		t.Helper()
		r.throttle = throttle.New()
		if err := f(); err != nil && !errors.Is(err, backend.ErrNotFound) {
			t.Fatalf("%s: %v", what, err)
		}
		if got := r.throttle.Slows(time.Now()); got != wanted {
			t.Errorf("after %s streams are slow: %v, want %v", what, got, wanted)
		}
	}
	step("a listing", false, func() error {
		_, err := b.Pods.List(t.Context())
		return err
	})
	step("a volume", true, func() error {
		return b.Files.Place(t.Context(), backend.VolumeSpec{
			Pod: pod, Name: "data", Source: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		})
	})
	step("a launch", true, func() error { return b.Pods.Launch(t.Context(), t.Context(), launchSpec(pod, 0)) })
	step("a start", true, func() error {
		return b.Containers.Start(t.Context(), ref, containerSpec(pod, "main", 0))
	})
	step("a removal", true, func() error { return b.Pods.Remove(t.Context(), ref) })
}
