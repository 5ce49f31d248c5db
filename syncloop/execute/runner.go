package execute

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/admit"
	"github.com/burstlet/burstlet/syncloop/imagegc"
	"github.com/burstlet/burstlet/syncloop/images"
	"github.com/burstlet/burstlet/syncloop/plan"
	"github.com/burstlet/burstlet/syncloop/resolve"
)

// Runner executes actions on the backend.
type Runner struct {
	Backend backend.Backend
	Images  *images.Puller
	// Resized records each call that resizes, and how long it took.
	Resized func(ok bool, d time.Duration)
	// Pulled records when an image was pulled for the pod; nil: nobody wants to know.
	Pulled func(from, to time.Time)
	// Full reports that a pull found no room on the remote.
	Full func()
	// Record records an Event about the pod, or about the container that is named; it
	// does nothing for orphans.
	Record func(container, kind, reason, message string)
	// Hold keeps hints of the pod back while a call changes it; holds counts those of
	// the stage that is under way.
	Hold  func()
	holds atomic.Int32
	// lookedUp is the image that the action wants, where it was looked up before.
	lookedUp foundImage
}

// warn records a Warning about the pod.
func (x *Runner) warn(reason, format string, args ...any) {
	x.about("")(corev1.EventTypeWarning, reason, format, args...)
}

// about records Events about a container.
func (x *Runner) about(container string) images.Event {
	return func(kind, reason, format string, args ...any) {
		x.Record(container, kind, reason, fmt.Sprintf(format, args...))
	}
}

// acting notes that a call begins that changes the pod.
func (x *Runner) acting() {
	x.holds.Add(1)
	x.Hold()
}

// call gives a mutating call its own deadline. It outlives the order to end the
// pod, not the process.
func (x *Runner) call(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := x.Backend.Limits.Call
	if limit == 0 {
		limit = 2 * time.Minute
	}
	return context.WithTimeout(ctx, limit)
}

// act does an action on the remote. What is safe to end (a pull, a launch that waits
// for its turn) ends with soft; what makes something is left to return within its own
// deadline.
func (x *Runner) act(ctx, soft context.Context, a plan.Action) plan.Result {
	switch a := a.(type) {
	case plan.Launch:
		return x.launch(ctx, soft, a)
	case plan.StartContainer:
		return x.start(ctx, soft, a)
	case plan.StopPod:
		return x.stopPod(ctx, a)
	case plan.RemovePod:
		return x.removePod(ctx, a)
	case plan.RemoveContainer:
		return x.removeContainer(ctx, a)
	case plan.StopContainer:
		return x.stopContainer(ctx, a)
	case plan.PlaceVolume:
		return x.place(ctx, a)
	case plan.RefreshVolumes:
		return x.refresh(ctx, a)
	case plan.ClearVolumes:
		return x.clear(ctx, a)
	case plan.ReadEnvFiles:
		return x.readEnvFiles(ctx, a)
	case plan.ResizeContainer:
		return x.resize(ctx, a)
	}
	return plan.Result{Action: a, Err: fmt.Errorf("no action is called %q", a)}
}

func (x *Runner) launch(ctx, soft context.Context, a plan.Launch) plan.Result {
	if soft.Err() != nil {
		err := backend.Errorf(backend.ErrThrottled, "%s: the pod is ending", a)
		return plan.Result{Action: a, GivenUp: true, Err: backend.Unmade(err)}
	}
	ctx, cancel := x.call(ctx)
	defer cancel()
	x.acting()
	r := plan.Result{Action: a, Err: x.Backend.Pods.Launch(ctx, soft, a.Spec)}
	r.GivenUp = soft.Err() != nil && backend.IsUnmade(r.Err)
	var ofContainer *backend.ContainerError
	switch {
	case r.GivenUp:
	case r.Err == nil:
		if x.Backend.Containers == nil {
			for _, c := range a.Spec.Containers {
				x.about(c.Container.Name)(corev1.EventTypeNormal, "Created", "Container created")
			}
		}
	case errors.Is(r.Err, backend.ErrThrottled), errors.Is(r.Err, backend.ErrUnavailable):
		// Not the pod's matter: no Event, and nothing in its status.
	case errors.Is(r.Err, backend.ErrCapacity):
		r.Reason = "InsufficientCapacity"
		x.warn(r.Reason, "The backend has no room for the pod now, it stays Pending: %v", r.Err)
	case errors.As(r.Err, &ofContainer):
		x.failContainer(&r, a, ofContainer)
	case errors.Is(r.Err, backend.ErrInvalid) && x.Backend.Containers == nil:
		r.Reason = plan.ReasonInvalid
		x.warn(r.Reason, "The backend can never run this pod: %v", r.Err)
	case errors.Is(r.Err, backend.ErrUnsupported):
		r.Reason = admit.ReasonUnsupported
		x.warn(r.Reason, "Pod was rejected: %v", r.Err)
	default:
		r.Reason = plan.ReasonSandboxFailed
		x.warn(r.Reason, "Failed to create pod sandbox: %v", r.Err)
	}
	return r
}

// failContainer records, with the kubelet's reasons, which container keeps an attempt
// from being made.
func (x *Runner) failContainer(r *plan.Result, a plan.Launch, why *backend.ContainerError) {
	r.Reason, r.Container = why.Reason, why.Container
	event := x.about(why.Container)
	if images.PullFailed(why.Reason) {
		for _, c := range a.Spec.Containers {
			if c.Container.Name == why.Container {
				event(corev1.EventTypeWarning, "Failed", "Failed to pull image %q: %v", c.Container.Image, why.Err)
			}
		}
		event(corev1.EventTypeWarning, "Failed", "Error: %s", why.Reason)
		return
	}
	event(corev1.EventTypeWarning, "Failed", "Error: %v", why.Err)
}

func (x *Runner) start(ctx, soft context.Context, a plan.StartContainer) plan.Result {
	name := a.Spec.Container.Name
	event := x.about(name)
	r := plan.Result{Action: a}
	if a.Pull {
		var err error
		if r.Image, err = x.imageVolumes(soft, &a.Spec); err == nil {
			a.Spec.ImageID, err = x.image(soft, &a.Spec)
		}
		if err != nil {
			if imagegc.NoSpace(err) {
				x.Full()
			}
			r.Err, r.Reason, r.Unmade = err, images.Reason(err), true
			return r
		}
	}
	if soft.Err() != nil {
		r.Unmade, r.GivenUp = true, true
		r.Err = backend.Errorf(backend.ErrThrottled, "start container %s: the pod is ending", name)
		return r
	}
	ctx, cancel := x.call(ctx)
	defer cancel()
	x.acting()
	switch r.Err = x.Backend.Containers.Start(ctx, a.Ref, a.Spec); {
	case r.Err == nil:
		event(corev1.EventTypeNormal, "Created", "Container created")
		event(corev1.EventTypeNormal, "Started", "Container started")
		return r
	case errors.Is(r.Err, backend.ErrThrottled), errors.Is(r.Err, backend.ErrUnavailable):
		return r
	case backend.IsNotStarted(r.Err):
		r.Reason = plan.ReasonRunError
		event(corev1.EventTypeNormal, "Created", "Container created")
	case errors.Is(r.Err, backend.ErrInvalid):
		r.Reason = plan.ReasonCreateConfigError
	default:
		r.Reason = plan.ReasonCreateError
	}
	event(corev1.EventTypeWarning, "Failed", "Error: %v", r.Err)
	return r
}

func (x *Runner) stopPod(ctx context.Context, a plan.StopPod) plan.Result {
	ctx, cancel := x.call(ctx)
	defer cancel()
	if a.First {
		for _, name := range a.Names {
			why := a.Why[name]
			if why == "" {
				why = "Stopping container " + name
			}
			x.about(name)(corev1.EventTypeNormal, "Killing", "%s", why)
		}
	}
	r := plan.Result{Action: a, Err: x.Backend.Pods.Stop(ctx, a.Ref, a.Grace)}
	if backend.IsOtherGrace(r.Err) { // it ends
		x.warn("OtherGracePeriod", "%v", r.Err)
		r.Err = nil
		return r
	}
	switch backend.Class(r.Err) {
	case "", "NotFound", "Throttled", "Unavailable":
	default:
		x.warn("FailedKillPod", "error killing pod: %v", r.Err)
	}
	return r
}

func (x *Runner) removePod(ctx context.Context, a plan.RemovePod) plan.Result {
	ctx, cancel := x.call(ctx)
	defer cancel()
	return plan.Result{Action: a, Err: twice(func() error { return x.Backend.Pods.Remove(ctx, a.Ref) })}
}

// twice repeats a call that succeeded at once: most remotes say NotFound the second time.
func twice(call func() error) error {
	if err := call(); err != nil {
		return err
	}
	return call()
}

func (x *Runner) removeContainer(ctx context.Context, a plan.RemoveContainer) plan.Result {
	ctx, cancel := x.call(ctx)
	defer cancel()
	return plan.Result{Action: a, Err: x.Backend.Containers.Remove(ctx, a.Ref)}
}

func (x *Runner) stopContainer(ctx context.Context, a plan.StopContainer) plan.Result {
	ctx, cancel := x.call(ctx)
	defer cancel()
	if a.First {
		why := a.Why
		if why == "" {
			why = "Stopping container " + a.Ref.Name
		}
		x.about(a.Ref.Name)(corev1.EventTypeNormal, "Killing", "%s", why)
	}
	return plan.Result{Action: a, Err: x.Backend.Containers.Stop(ctx, a.Ref, a.Grace)}
}

func (x *Runner) place(ctx context.Context, a plan.PlaceVolume) plan.Result {
	ctx, cancel := x.call(ctx)
	defer cancel()
	r := plan.Result{Action: a, Err: x.Backend.Files.Place(ctx, a.Spec)}
	if r.Err != nil && !errors.Is(r.Err, backend.ErrThrottled) && !errors.Is(r.Err, backend.ErrUnavailable) {
		r.Reason = plan.ReasonFailedMount
		x.warn(r.Reason, "MountVolume.SetUp failed for volume %q : %v", a.Spec.Name, r.Err)
	}
	return r
}

func (x *Runner) refresh(ctx context.Context, a plan.RefreshVolumes) plan.Result {
	ctx, cancel := x.call(ctx)
	defer cancel()
	r := plan.Result{Action: a, Err: x.Backend.Refresh.Refresh(ctx, a.Ref, a.Volumes)}
	switch backend.Class(r.Err) {
	case "", "NotFound", "Throttled", "Unavailable":
	default:
		r.Reason = plan.ReasonFailedMount
		for _, v := range a.Volumes {
			x.warn(r.Reason, "MountVolume.SetUp failed for volume %q : %v", v.Name, r.Err)
		}
	}
	return r
}

func (x *Runner) clear(ctx context.Context, a plan.ClearVolumes) plan.Result {
	ctx, cancel := x.call(ctx)
	defer cancel()
	return plan.Result{Action: a, Err: twice(func() error { return x.Backend.Files.Clear(ctx, a.Ref) })}
}

// readEnvFiles reads each file by itself: one that is missing or odd is the matter of the
// variables that come from it. Any other error is not, and the next try is soon.
func (x *Runner) readEnvFiles(ctx context.Context, a plan.ReadEnvFiles) plan.Result {
	ctx, cancel := x.call(ctx)
	defer cancel()
	r := plan.Result{Action: a, EnvFiles: map[resolve.EnvFile]resolve.Object[[]byte]{}}
	for _, f := range a.Files {
		data, err := x.Backend.Files.Read(ctx, backend.VolumeFile{Pod: a.Pod, Volume: f.Volume, Path: f.Path})
		if err != nil && !errors.Is(err, backend.ErrNotFound) && !errors.Is(err, backend.ErrInvalid) {
			r.Err = err
			return r
		}
		r.EnvFiles[f] = resolve.Object[[]byte]{Value: data, Err: err}
	}
	return r
}

func (x *Runner) resize(ctx context.Context, a plan.ResizeContainer) plan.Result {
	ctx, cancel := x.call(ctx)
	defer cancel()
	start := time.Now()
	r := plan.Result{Action: a, Err: x.Backend.Resize.Resize(ctx, a.Ref, a.Spec)}
	x.Resized(r.Err == nil, time.Since(start))
	switch {
	case r.Err == nil, errors.Is(r.Err, backend.ErrThrottled), errors.Is(r.Err, backend.ErrUnavailable),
		errors.Is(r.Err, backend.ErrNotFound): // facts will say that it has ended
	default:
		r.Reason = corev1.PodReasonError
	}
	return r
}
