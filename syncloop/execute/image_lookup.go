package execute

import (
	"context"
	"runtime/debug"
	"slices"
	"time"

	"github.com/containerd/log"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/images"
	"github.com/burstlet/burstlet/syncloop/plan"
)

// lookupValidFor is how long an image that was found before its turn counts as there: it may
// be removed meanwhile.
const lookupValidFor = 10 * time.Second

// foundImage is an image that was found for a container; without an id it was not.
type foundImage struct {
	container, id string
	at            time.Time
}

// imageLookup finds an image while the action before the one that wants it is under way.
type imageLookup struct {
	cancel context.CancelFunc
	found  chan foundImage
}

// startLookup looks up the image of the container that the next stage starts, if it
// starts one.
func (x *Runner) startLookup(ctx context.Context, todo [][]plan.Action) imageLookup {
	ctx, cancel := context.WithCancel(ctx)
	s := imageLookup{cancel: cancel, found: make(chan foundImage, 1)}
	var next plan.StartContainer
	if len(todo) > 0 {
		next, _ = todo[0][0].(plan.StartContainer)
	}
	if !next.Pull {
		s.found <- foundImage{}
		return s
	}
	go func() {
		f := foundImage{container: next.Spec.Container.Name, at: time.Now()}
		defer func() {
			if p := recover(); p != nil { // it is asked again at its time
				log.G(ctx).WithField("stack", string(debug.Stack())).Error("looking for an image panicked")
			}
			s.found <- f
		}()
		f.id = x.Images.Present(ctx, ofContainer(&next.Spec))
	}()
	return s
}

// end waits for what was found; a lookup in vain ends at once.
func (s imageLookup) end(inVain bool) foundImage {
	if inVain {
		s.cancel()
	}
	defer s.cancel()
	return <-s.found
}

// image makes sure that a container's image is there, and returns its id.
func (x *Runner) image(ctx context.Context, spec *backend.ContainerSpec) (string, error) {
	f := x.lookedUp
	if f.id != "" && f.container == spec.Container.Name && time.Since(f.at) < lookupValidFor {
		images.AlreadyPresent(spec.Container.Image, x.about(spec.Container.Name))
		return f.id, nil
	}
	event, over := x.timePull(x.about(spec.Container.Name))
	id, err := x.Images.EnsureImageExists(ctx, ofContainer(spec), event)
	over()
	images.ReportFailed(err, event)
	return id, err
}

func ofContainer(spec *backend.ContainerSpec) images.Wanted {
	return images.Wanted{
		Pod: spec.Pod, Image: spec.Container.Image, Policy: spec.Container.ImagePullPolicy, Credentials: spec.Credentials,
	}
}

// imageVolumes makes sure that the images which a container mounts are there, and notes
// their ids. All are tried; the error is that of the last that failed, with its image. The
// pulls are Events of the pod, as a volume belongs to it (kubelet: getImageVolumes).
func (x *Runner) imageVolumes(ctx context.Context, spec *backend.ContainerSpec) (image string, err error) {
	there := slices.Clone(spec.ImageVolumes) // the plan's own is not changed
	for i := range there {
		v := &there[i]
		event, over := x.timePull(x.about(""))
		id, failed := x.Images.EnsureImageExists(ctx, images.Wanted{
			Pod: spec.Pod, Image: v.Reference, Policy: v.PullPolicy, Credentials: v.Credentials,
		}, event)
		over()
		if failed != nil {
			images.ReportFailed(failed, x.about(spec.Container.Name))
			image, err = v.Reference, failed
		}
		v.ImageID = id
	}
	spec.ImageVolumes = there
	return image, err
}

// timePull returns an Event recorder for a pull, and what is called when it is over.
func (x *Runner) timePull(event images.Event) (recorder images.Event, over func()) {
	var from time.Time
	recorder = func(kind, reason, format string, args ...any) {
		if reason == "Pulling" {
			from = time.Now()
		}
		event(kind, reason, format, args...)
	}
	return recorder, func() {
		if !from.IsZero() && x.Pulled != nil {
			x.Pulled(from, time.Now())
		}
	}
}
