package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// Resized is an event: a running container was given other resources.
const Resized Kind = "Resized"

// resizeView lends backend.Resizer.
type resizeView struct{ *view }

// Resize gives a running container other cpu and memory. As the kernel and the
// kubelet do, it refuses a memory limit below what the container uses.
func (v resizeView) Resize(ctx context.Context, ref backend.ContainerRef, spec backend.ContainerSpec) error {
	op := containerOp("resize", ref)
	if err := v.request(ctx, op); err != nil {
		return err
	}
	if err := v.resize(ref, *backend.WithPodLimits(spec.Pod, &spec.Container.Resources)); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return v.reply(ctx, op)
}

func (v resizeView) resize(ref backend.ContainerRef, wanted corev1.ResourceRequirements) error {
	now := v.lock()
	defer v.mu.Unlock()
	a, c := v.lookup(ref.Pod, ref.Name, ref.Attempt, now)
	if c == nil || !c.runs(a, now) {
		return backend.Errorf(backend.ErrNotFound, "it does not run")
	}
	ran := now.Sub(c.started)
	using, _ := c.used(ran)
	if limit, ok := wanted.Limits[corev1.ResourceMemory]; ok && limit.Sign() > 0 && uint64(limit.Value()) <= using.memory {
		return backend.Errorf(backend.ErrInvalid,
			"cannot decrease memory limits: attempting to set container %q memory limit (%d) below current usage (%d)",
			c.name, limit.Value(), using.memory)
	}
	c.settle(ran)
	c.hold(*wanted.DeepCopy())
	v.audit.add(Event{At: now, Kind: Resized, Pod: a.ref, Container: c.name, Attempt: c.attempt})
	v.notify(a, now)
	return nil
}

// settle keeps what the container got until now as it was under the limits until
// now: what it used stays used. What it asks for goes on.
func (c *container) settle(ran time.Duration) {
	var loads []load
	for _, l := range withLoad(slices.Clone(c.loads()), ran, func(*load) {}) {
		if l.at < ran && !l.settled {
			l = c.limited(l)
			l.settled = true
		}
		loads = append(loads, l)
	}
	c.program.loads = loads
}

// hold gives the container resources, for facts to tell of.
func (c *container) hold(r corev1.ResourceRequirements) {
	c.spec.Container.Resources = r
	if c.held = nil; len(r.Requests)+len(r.Limits) > 0 {
		c.held = &r
	}
}
