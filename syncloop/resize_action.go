package syncloop

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// ResizeContainer gives a running container the resources of Spec, in place.
type ResizeContainer struct {
	Ref  backend.ContainerRef
	Spec backend.ContainerSpec
}

func (a ResizeContainer) String() string { return "resize container " + a.Ref.Name }

func resizeKey(container string) string { return "resize " + container }

func (a ResizeContainer) key() string { return resizeKey(a.Ref.Name) }

func (a ResizeContainer) run(ctx, _ context.Context, x *executor) Result {
	ctx, cancel := x.call(ctx)
	defer cancel()
	start := time.Now()
	r := Result{Action: a, Err: x.backend.Resize.Resize(ctx, a.Ref, a.Spec)}
	x.resized(r.Err == nil, time.Since(start))
	switch {
	case r.Err == nil, errors.Is(r.Err, backend.ErrThrottled), errors.Is(r.Err, backend.ErrUnavailable),
		errors.Is(r.Err, backend.ErrNotFound): // facts will say that it has ended
	default:
		r.Reason = corev1.PodReasonError
	}
	return r
}

// recordResize notes what a container was asked to be held to. What failed may
// have happened all the same: it is asked again.
func (m *Memory) recordResize(a ResizeContainer, r Result) {
	put(&m.Resized, a.Ref.ID, Resized{Resources: a.Spec.Container.Resources, Done: r.Err == nil})
	if r.Err == nil {
		delete(m.Failures, a.key())
		m.PodLags = false
		return
	}
	m.fail(a.key(), r)
	if m.Resizing != nil && r.Reason != "" {
		failed := *m.Resizing
		failed.Reason, failed.Message = r.Reason, r.Err.Error()
		m.Resizing = &failed
	}
}

// adoptResize takes over a resize that an earlier life of the process began.
func (m *Memory) adoptResize(in *Input) {
	if c := conditionOf(&m.Status, corev1.PodResizeInProgress); c != nil && in.Resizes {
		m.Resizing = &Resizing{Generation: c.ObservedGeneration, Reason: c.Reason, Message: c.Message}
		m.PodLags = true
	}
}
