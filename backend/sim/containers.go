package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// containersView lends backend.Containers.
type containersView struct{ *view }

// Start makes the container, or finds it made already, and waits for its start.
func (v containersView) Start(ctx context.Context, ref backend.Ref, spec backend.ContainerSpec) error {
	op := fmt.Sprintf("start container %s/%s attempt %d", ref.UID, spec.Container.Name, spec.Attempt)
	if spec.Container.Name == "" || spec.Attempt < 0 {
		return backend.Errorf(backend.ErrInvalid, "%s: a name and an attempt are required", op)
	}
	if err := v.request(ctx, op); err != nil {
		return err
	}
	started, err := v.start(ref, spec)
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	if err := wait(ctx, time.Until(started), op); err != nil {
		return err
	}
	return v.reply(ctx, op)
}

func (v containersView) start(ref backend.Ref, spec backend.ContainerSpec) (time.Time, error) {
	now := v.lock()
	defer v.mu.Unlock()
	if _, c := v.lookup(ref, spec.Container.Name, spec.Attempt, now); c != nil {
		return c.started, nil
	}
	a := v.newest(ref, now)
	if a == nil || !a.live(now) || reached(a.broken, now) || a.stop.asked() {
		return time.Time{}, backend.Errorf(backend.ErrNotFound, "the pod has no sandbox to start in")
	}
	if _, ok := v.images[normalize(spec.Container.Image)]; !ok {
		return time.Time{}, fmt.Errorf("image %q is not on the remote", spec.Container.Image)
	}
	for _, volume := range spec.ImageVolumes {
		if _, ok := v.images[normalize(volume.Reference)]; !ok {
			return time.Time{}, fmt.Errorf("ImageVolumeMountFailed: failed to resolve image %q: not found", volume.Reference)
		}
	}
	c, err := v.newContainer(a, spec, spec.Attempt, now)
	if err != nil {
		return time.Time{}, err
	}
	v.audit.started(a, c, v.pods[ref.UID], now)
	a.containers = append(a.containers, c)
	v.project(a, now)
	return c.started, nil
}

// newest is the attempt of the pod with the highest number.
func (v *view) newest(ref backend.Ref, now time.Time) *attempt {
	var found *attempt
	for _, a := range v.pods[ref.UID] {
		if a.node == v.node && !a.isGone(now) && (found == nil || a.ref.Attempt > found.ref.Attempt) {
			found = a
		}
	}
	return found
}

// lookup finds one attempt of a container in whatever attempt of the pod it is.
// In the pod unit the name alone is not enough: the pod's attempt counts too.
func (v *view) lookup(ref backend.Ref, name string, attempt int, now time.Time) (*attempt, *container) {
	for _, a := range v.pods[ref.UID] {
		if a.node != v.node || a.isGone(now) || (v.cfg.PodUnit && a.ref.Attempt != ref.Attempt) {
			continue
		}
		if c := a.find(name, attempt); c != nil {
			return a, c
		}
	}
	return nil, nil
}

// Stop lodges the end of one container.
func (v containersView) Stop(ctx context.Context, ref backend.ContainerRef, grace time.Duration) error {
	op := containerOp("stop", ref)
	if err := v.request(ctx, op); err != nil {
		return err
	}
	if err := v.stop(ref, grace); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return v.reply(ctx, op)
}

func (v containersView) stop(ref backend.ContainerRef, grace time.Duration) error {
	now := v.lock()
	defer v.mu.Unlock()
	a, c := v.lookup(ref.Pod, ref.Name, ref.Attempt, now)
	if c == nil || c.exited(now) {
		return backend.Errorf(backend.ErrNotFound, "it does not run")
	}
	c.stop.lodge(now, grace)
	v.audit.add(Event{At: now, Kind: Stopped, Pod: a.ref, Container: c.name, Attempt: c.attempt, Grace: grace})
	v.project(a, now)
	return nil
}

// Remove forgets one dead container and its log.
func (v containersView) Remove(ctx context.Context, ref backend.ContainerRef) error {
	op := containerOp("remove", ref)
	if err := v.request(ctx, op); err != nil {
		return err
	}
	if err := v.remove(ref); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return v.reply(ctx, op)
}

func (v containersView) remove(ref backend.ContainerRef) error {
	now := v.lock()
	defer v.mu.Unlock()
	a, c := v.lookup(ref.Pod, ref.Name, ref.Attempt, now)
	if c == nil {
		return backend.Errorf(backend.ErrNotFound, "it does not exist")
	}
	if !c.exited(now) {
		return fmt.Errorf("it has not ended")
	}
	kept := make([]*container, 0, len(a.containers)-1)
	for _, other := range a.containers {
		if other != c {
			kept = append(kept, other)
		}
	}
	a.containers = kept
	a.burnt += c.spent(a, now)
	v.audit.add(Event{At: now, Kind: Removed, Pod: a.ref, Container: c.name, Attempt: c.attempt})
	v.notify(a, now)
	return nil
}

func containerOp(verb string, ref backend.ContainerRef) string {
	return fmt.Sprintf("%s container %s/%s attempt %d", verb, ref.Pod.UID, ref.Name, ref.Attempt)
}
