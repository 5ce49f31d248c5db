package syncloop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/admit"
	"github.com/burstlet/burstlet/syncloop/images"
)

// The kubelet's words for what failed.
const (
	reasonSandboxFailed     = "FailedCreatePodSandBox"
	reasonCreateConfigError = "CreateContainerConfigError"
	reasonCreateError       = "CreateContainerError"
	reasonNoPullSecret      = "FailedToRetrieveImagePullSecret"
	reasonFailedMount       = "FailedMount"
	reasonNetworkNotReady   = "NetworkNotReady"
)

// Action is one thing to do on the remote for one pod.
type Action interface {
	fmt.Stringer
	// run does it. What is safe to end (a pull, a launch that waits for its turn)
	// ends with soft; what makes something is left to return within its own deadline.
	run(ctx, soft context.Context, x *executor) Result
}

// executor is what actions act with.
type executor struct {
	backend backend.Backend
	images  *images.Puller
	// resized is told of each call that resizes, and how long it took.
	resized func(ok bool, d time.Duration)
	// full is told that a pull found no room on the remote.
	full func()
	// event tells the user; it does nothing for orphans.
	event func(kind, reason, format string, args ...any)
	// hold keeps hints of the pod back while a call changes it; holds counts those of
	// the stage that is under way.
	hold  func()
	holds atomic.Int32
	// ahead is the image that the action wants, where it was looked for before.
	ahead foundImage
}

// acting notes that a call begins that changes the pod.
func (x *executor) acting() {
	x.holds.Add(1)
	x.hold()
}

// call gives a mutating call its own deadline. It outlives the order to end the
// pod, not the process.
func (x *executor) call(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := x.backend.Limits.Call
	if limit == 0 {
		limit = 2 * time.Minute
	}
	return context.WithTimeout(ctx, limit)
}

// Launch makes an attempt of the pod. Restart, Ended and Loop (the crash loop's
// key) are set where the pod is the unit of restart and an attempt went before.
type Launch struct {
	Spec backend.LaunchSpec
	// Counts is true where a refusal makes the next launch another try.
	Counts  bool
	Restart bool
	Ended   time.Time
	Loop    string
}

func (a Launch) String() string { return fmt.Sprintf("launch attempt %d", a.Spec.Attempt) }

func (a Launch) run(ctx, soft context.Context, x *executor) Result {
	if soft.Err() != nil {
		return Result{Action: a, GivenUp: true, Err: backend.Unmade(backend.Errorf(backend.ErrThrottled, "%s: the pod is ending", a))}
	}
	ctx, cancel := x.call(ctx)
	defer cancel()
	x.acting()
	r := Result{Action: a, Err: x.backend.Pods.Launch(backend.While(ctx, soft), a.Spec)}
	r.GivenUp = soft.Err() != nil && backend.IsUnmade(r.Err)
	var ofContainer *backend.ContainerError
	switch {
	case r.GivenUp:
	case r.Err == nil:
		if x.backend.Containers == nil {
			for _, c := range a.Spec.Containers {
				x.event(corev1.EventTypeNormal, "Created", "Container created: %s", c.Container.Name)
			}
		}
	case errors.Is(r.Err, backend.ErrThrottled), errors.Is(r.Err, backend.ErrUnavailable):
		// Not the pod's matter: no Event, and nothing in its status.
	case errors.Is(r.Err, backend.ErrCapacity):
		r.Reason = "InsufficientCapacity"
		x.event(corev1.EventTypeWarning, r.Reason, "The backend has no room for the pod now, it stays Pending: %v", r.Err)
	case errors.As(r.Err, &ofContainer):
		x.tellContainer(&r, a, ofContainer)
	case errors.Is(r.Err, backend.ErrInvalid):
		r.Reason = reasonInvalid
		x.event(corev1.EventTypeWarning, r.Reason, "The backend can never run this pod: %v", r.Err)
	case errors.Is(r.Err, backend.ErrUnsupported):
		r.Reason = admit.ReasonUnsupported
		x.event(corev1.EventTypeWarning, r.Reason, "Pod was rejected: %v", r.Err)
	default:
		r.Reason = reasonSandboxFailed
		x.event(corev1.EventTypeWarning, r.Reason, "Failed to create pod sandbox: %v", r.Err)
	}
	return r
}

// tellContainer says in the kubelet's words what keeps a container, and the attempt
// with it, from being made.
func (x *executor) tellContainer(r *Result, a Launch, why *backend.ContainerError) {
	r.Reason, r.Container = why.Reason, why.Container
	if images.PullFailed(why.Reason) {
		for _, c := range a.Spec.Containers {
			if c.Container.Name == why.Container {
				x.event(corev1.EventTypeWarning, "Failed", "Failed to pull image %q: %v", c.Container.Image, why.Err)
			}
		}
		x.event(corev1.EventTypeWarning, "Failed", "Error: %s", why.Reason)
		return
	}
	x.event(corev1.EventTypeWarning, "Failed", "Error: %v", why.Err)
}

// StartContainer pulls the image where the policy says so and makes one attempt
// of a container. Restart, Ended and Loop (the crash loop's key) are set where an
// attempt went before.
type StartContainer struct {
	Ref     backend.Ref
	Spec    backend.ContainerSpec
	Pull    bool
	Restart bool
	Ended   time.Time
	Loop    string
}

func (a StartContainer) String() string {
	return fmt.Sprintf("start container %s attempt %d", a.Spec.Container.Name, a.Spec.Attempt)
}

func (a StartContainer) run(ctx, soft context.Context, x *executor) Result {
	name := a.Spec.Container.Name
	r := Result{Action: a}
	if a.Pull {
		id, err := x.image(soft, &a.Spec)
		if err != nil {
			if images.NoSpace(err) {
				x.full()
			}
			r.Err, r.Reason, r.Unmade = err, images.Reason(err), true
			return r
		}
		a.Spec.ImageID = id
	}
	if soft.Err() != nil {
		r.Unmade, r.GivenUp = true, true
		r.Err = backend.Errorf(backend.ErrThrottled, "start container %s: the pod is ending", name)
		return r
	}
	ctx, cancel := x.call(ctx)
	defer cancel()
	x.acting()
	switch r.Err = x.backend.Containers.Start(ctx, a.Ref, a.Spec); {
	case r.Err == nil:
		x.event(corev1.EventTypeNormal, "Created", "Container created: %s", name)
		x.event(corev1.EventTypeNormal, "Started", "Container started: %s", name)
		return r
	case errors.Is(r.Err, backend.ErrThrottled), errors.Is(r.Err, backend.ErrUnavailable):
		return r
	case errors.Is(r.Err, backend.ErrInvalid):
		r.Reason = reasonCreateConfigError
	default:
		r.Reason = reasonCreateError
	}
	x.event(corev1.EventTypeWarning, "Failed", "Error: %v", r.Err)
	return r
}

// StopPod asks an attempt to end. First is true for the first time.
type StopPod struct {
	Ref      backend.Ref
	Grace    time.Duration
	Deadline time.Time
	First    bool
	Names    []string
	// Why says of containers why they end, where their pod lives on.
	Why map[string]string
}

func (a StopPod) String() string {
	return fmt.Sprintf("stop attempt %d with grace %s", a.Ref.Attempt, a.Grace)
}

func (a StopPod) run(ctx, _ context.Context, x *executor) Result {
	ctx, cancel := x.call(ctx)
	defer cancel()
	if a.First {
		for _, name := range a.Names {
			why := a.Why[name]
			if why == "" {
				why = "Stopping container " + name
			}
			x.event(corev1.EventTypeNormal, "Killing", "%s", why)
		}
	}
	r := Result{Action: a, Err: x.backend.Pods.Stop(ctx, a.Ref, a.Grace)}
	switch backend.Class(r.Err) {
	case "", "NotFound", "Throttled", "Unavailable":
	default:
		x.event(corev1.EventTypeWarning, "FailedKillPod", "error killing pod: %v", r.Err)
	}
	return r
}

// RemovePod deletes an attempt. Settles is true when a launch of it whose reply
// was lost cannot appear any more: then its absence is for good.
type RemovePod struct {
	Ref     backend.Ref
	Settles bool
}

func (a RemovePod) String() string { return fmt.Sprintf("remove attempt %d", a.Ref.Attempt) }

// run repeats the call at once: most remotes say NotFound the second time.
func (a RemovePod) run(ctx, _ context.Context, x *executor) Result {
	ctx, cancel := x.call(ctx)
	defer cancel()
	r := Result{Action: a}
	for range 2 {
		if r.Err = x.backend.Pods.Remove(ctx, a.Ref); r.Err != nil {
			break
		}
	}
	return r
}

// RemoveContainer deletes an ended attempt of a container.
type RemoveContainer struct{ Ref backend.ContainerRef }

func (a RemoveContainer) String() string {
	return fmt.Sprintf("remove container %s attempt %d", a.Ref.Name, a.Ref.Attempt)
}

func (a RemoveContainer) run(ctx, _ context.Context, x *executor) Result {
	ctx, cancel := x.call(ctx)
	defer cancel()
	return Result{Action: a, Err: x.backend.Containers.Remove(ctx, a.Ref)}
}

// StopContainer asks one container to end. First is true for the first time; Why
// is for the Event, empty when the whole pod ends.
type StopContainer struct {
	Ref      backend.ContainerRef
	Grace    time.Duration
	Deadline time.Time
	First    bool
	Why      string
	key      string
}

func (a StopContainer) String() string {
	return fmt.Sprintf("stop container %s attempt %d with grace %s", a.Ref.Name, a.Ref.Attempt, a.Grace)
}

func (a StopContainer) run(ctx, _ context.Context, x *executor) Result {
	ctx, cancel := x.call(ctx)
	defer cancel()
	if a.First {
		why := a.Why
		if why == "" {
			why = "Stopping container " + a.Ref.Name
		}
		x.event(corev1.EventTypeNormal, "Killing", "%s", why)
	}
	return Result{Action: a, Err: x.backend.Containers.Stop(ctx, a.Ref, a.Grace)}
}

// PlaceVolume makes a volume on the remote, or swaps its contents.
type PlaceVolume struct{ Spec backend.VolumeSpec }

func (a PlaceVolume) String() string { return "place volume " + a.Spec.Name }

func (a PlaceVolume) key() string { return "volume " + a.Spec.Name }

func (a PlaceVolume) run(ctx, _ context.Context, x *executor) Result {
	ctx, cancel := x.call(ctx)
	defer cancel()
	r := Result{Action: a, Err: x.backend.Files.Place(ctx, a.Spec)}
	if r.Err != nil && !errors.Is(r.Err, backend.ErrThrottled) && !errors.Is(r.Err, backend.ErrUnavailable) {
		r.Reason = reasonFailedMount
		x.event(corev1.EventTypeWarning, r.Reason, "MountVolume.SetUp failed for volume %q : %v", a.Spec.Name, r.Err)
	}
	return r
}

// RefreshVolumes gives a running attempt files that changed.
type RefreshVolumes struct {
	Ref     backend.Ref
	Volumes []backend.VolumeSpec
}

func (a RefreshVolumes) String() string {
	names := make([]string, len(a.Volumes))
	for i, v := range a.Volumes {
		names[i] = v.Name
	}
	return "refresh volumes " + strings.Join(names, ", ")
}

func (RefreshVolumes) key() string { return "volumes" }

func (a RefreshVolumes) run(ctx, _ context.Context, x *executor) Result {
	ctx, cancel := x.call(ctx)
	defer cancel()
	r := Result{Action: a, Err: x.backend.Refresh.Refresh(ctx, a.Ref, a.Volumes)}
	switch backend.Class(r.Err) {
	case "", "NotFound", "Throttled", "Unavailable":
	default:
		r.Reason = reasonFailedMount
		for _, v := range a.Volumes {
			x.event(corev1.EventTypeWarning, r.Reason, "MountVolume.SetUp failed for volume %q : %v", v.Name, r.Err)
		}
	}
	return r
}

// ClearVolumes unmounts and removes the pod's volumes.
type ClearVolumes struct{ Ref backend.Ref }

func (a ClearVolumes) String() string { return "clear volumes" }

// run repeats the call at once: most remotes say NotFound the second time.
func (a ClearVolumes) run(ctx, _ context.Context, x *executor) Result {
	ctx, cancel := x.call(ctx)
	defer cancel()
	r := Result{Action: a}
	for range 2 {
		if r.Err = x.backend.Files.Clear(ctx, a.Ref); r.Err != nil {
			break
		}
	}
	return r
}
