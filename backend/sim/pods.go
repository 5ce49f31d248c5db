package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim/filesystem"
)

// podsView lends backend.Pods.
type podsView struct{ *view }

// Launch makes the attempt, or finds it made already, and in the container unit
// waits for its sandbox.
func (v podsView) Launch(ctx, _ context.Context, spec backend.LaunchSpec) error {
	if spec.Pod == nil || spec.Pod.UID == "" || spec.Attempt < 0 {
		return backend.Errorf(backend.ErrInvalid, "launch pod: a UID and an attempt are required")
	}
	op := fmt.Sprintf("launch pod %s attempt %d", spec.Pod.UID, spec.Attempt)
	if v.cfg.PodUnit && len(spec.Containers) == 0 {
		return backend.Errorf(backend.ErrInvalid, "%s: no containers", op)
	}
	if err := v.request(ctx, op); err != nil {
		return err
	}
	ready, err := v.launch(spec)
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	if !v.cfg.PodUnit {
		if err := wait(ctx, time.Until(ready), op); err != nil {
			return err
		}
	}
	return v.reply(ctx, op)
}

func (v podsView) launch(spec backend.LaunchSpec) (ready time.Time, err error) {
	now := v.lock()
	defer v.mu.Unlock()
	ref := spec.Ref()
	if a := v.find(v.node, ref, now); a != nil {
		if a.ref.Namespace != ref.Namespace || a.ref.Name != ref.Name || !a.gone.IsZero() {
			return ready, backend.Errorf(backend.ErrExists, "it is another pod's or being removed")
		}
		return a.ready, nil
	}
	if v.maxPods > 0 && v.live(now) >= v.maxPods {
		return ready, backend.Errorf(backend.ErrCapacity, "all of %d places are taken", v.maxPods)
	}
	a, err := v.newAttempt(spec, now)
	if err != nil {
		return ready, err
	}
	v.audit.launched(a, v.pods[ref.UID], now)
	v.insert(a)
	v.project(a, now)
	return a.ready, nil
}

func (v podsView) newAttempt(spec backend.LaunchSpec, now time.Time) (*attempt, error) {
	a := &attempt{node: v.node, ref: spec.Ref(), created: now, ready: now.Add(v.cfg.Latency.Launch)}
	a.health = v.cfg.PodUnit && v.cfg.Health
	a.ref.ID = v.newID("pod", a.ref.UID, a.ref.Attempt)
	if spec.Pod.Spec.HostNetwork {
		a.ips = v.cfg.HostIPs
	} else {
		ip, ok := v.ips.take()
		if !ok {
			return nil, backend.Errorf(backend.ErrCapacity, "no address is free")
		}
		a.ips, a.release = []string{ip}, ip
	}
	if !v.cfg.PodUnit {
		return a, nil
	}
	a.hostIPs, a.grace = a.ips, graceOf(spec.Pod)
	if err := v.fill(a, spec, now); err != nil {
		v.ips.release(a.release)
		return nil, err
	}
	return a, nil
}

// fill gives an attempt that runs as one its volumes and containers.
func (v podsView) fill(a *attempt, spec backend.LaunchSpec, now time.Time) error {
	if !v.cfg.Files {
		volumes, err := carried(spec, now)
		if err != nil {
			return err
		}
		a.volumes = volumes
	}
	for _, s := range spec.Containers {
		c, err := v.newContainer(a, s, spec.Attempt, now)
		switch {
		case err != nil && a.volumes != nil:
			return backend.Classed(backend.ErrInvalid, err) // no volume will come later
		case err != nil:
			return err
		}
		a.containers = append(a.containers, c)
	}
	return nil
}

// graceOf is the pod's, as the API server defaults it.
func graceOf(pod *corev1.Pod) time.Duration {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

// newContainer makes a container whose Script sees the given attempt.
func (v *view) newContainer(a *attempt, spec backend.ContainerSpec, attempt int, now time.Time) (*container, error) {
	c := &container{
		name: spec.Container.Name, attempt: spec.Attempt, hash: spec.Hash,
		image: spec.Container.Image, imageID: spec.ImageID, spec: spec,
		init: spec.Init, sidecar: spec.Init && backend.IsSidecar(&spec.Container), created: now,
	}
	c.spec.Credentials = nil // nothing is pulled
	c.spec.ImageVolumes = slices.Clone(spec.ImageVolumes)
	for i := range c.spec.ImageVolumes {
		c.spec.ImageVolumes[i].Credentials = nil
	}
	if c.imageID == "" && !isMissing(c.image) {
		c.imageID = imageID(c.image)
	}
	var err error
	if c.mounts, err = filesystem.Mounts(spec, v.volumesOf(a), normalize); err != nil {
		return nil, err
	}
	c.user = linuxUser(&spec)
	c.hold(*backend.WithPodLimits(spec.Pod, &spec.Container.Resources))
	c.id = v.newID("container", c.name, c.attempt)
	c.program = readProgram(c, a.writesOfInits(), now)
	if v.cfg.Script != nil {
		c.program.Life = v.cfg.Script(spec.Pod, spec.Container, attempt)
	}
	for _, w := range c.program.writes {
		w.Subscribe(c)
	}
	return c, nil
}

// writesOfInits are what the init containers of an attempt that runs as one will
// have left in its volumes when the next container starts.
func (a *attempt) writesOfInits() []filesystem.Write {
	var out []filesystem.Write
	if a.volumes == nil {
		return nil // each container is made when those before it have ended
	}
	for _, c := range a.containers {
		for _, w := range c.program.writes {
			if c.init && w.Volume != nil {
				out = append(out, w)
			}
		}
	}
	return out
}

// Stop lodges the end of the attempt.
func (v podsView) Stop(ctx context.Context, ref backend.Ref, grace time.Duration) error {
	op := fmt.Sprintf("stop pod %s attempt %d", ref.UID, ref.Attempt)
	if err := v.request(ctx, op); err != nil {
		return err
	}
	if err := v.stop(ref, grace); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return v.reply(ctx, op)
}

func (v podsView) stop(ref backend.Ref, grace time.Duration) error {
	now := v.lock()
	defer v.mu.Unlock()
	a := v.find(v.node, ref, now)
	if a == nil || !a.live(now) {
		return backend.Errorf(backend.ErrNotFound, "it is not live")
	}
	a.lodge(now, grace)
	v.audit.add(Event{At: now, Kind: Stopped, Pod: a.ref, Grace: grace})
	v.project(a, now)
	return nil
}

// lodge asks the attempt and each of its containers to end.
func (a *attempt) lodge(now time.Time, grace time.Duration) {
	a.stop.lodge(now, grace)
	for _, c := range a.containers {
		if !c.exited(now) {
			c.stop.lodge(now, grace)
		}
	}
}

// Remove kills what runs and forgets the attempt when it is down.
func (v podsView) Remove(ctx context.Context, ref backend.Ref) error {
	op := fmt.Sprintf("remove pod %s attempt %d", ref.UID, ref.Attempt)
	if err := v.request(ctx, op); err != nil {
		return err
	}
	if err := v.remove(ref); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return v.reply(ctx, op)
}

func (v podsView) remove(ref backend.Ref) error {
	now := v.lock()
	defer v.mu.Unlock()
	a := v.find(v.node, ref, now)
	switch {
	case a == nil:
		return backend.Errorf(backend.ErrNotFound, "it does not exist")
	case !a.gone.IsZero():
		return nil // being torn down
	}
	if a.live(now) {
		a.lodge(now, 0)
		v.project(a, now)
	}
	a.gone = latest(a.dead, now)
	v.audit.add(Event{At: now, Kind: Removed, Pod: a.ref})
	v.notify(a, now)
	if a.isGone(now) {
		v.drop(a)
	} else {
		v.leaving = append(v.leaving, a)
	}
	return nil
}

// List returns what this node owns, in the order of launching.
func (v podsView) List(ctx context.Context) ([]backend.PodFacts, error) {
	if err := v.request(ctx, "list pods"); err != nil {
		return nil, err
	}
	out := v.list()
	if err := v.reply(ctx, "list pods"); err != nil {
		return nil, err
	}
	return out, nil
}

func (v podsView) list() []backend.PodFacts {
	now := v.lock()
	defer v.mu.Unlock()
	return v.facts(now, func(a *attempt) bool { return a.node == v.node })
}

// Inspect costs as much as the pods named have attempts.
func (v podsView) Inspect(ctx context.Context, uids []types.UID) ([]backend.PodFacts, error) {
	if err := v.request(ctx, "inspect pods"); err != nil {
		return nil, err
	}
	out := v.inspect(uids)
	if err := v.reply(ctx, "inspect pods"); err != nil {
		return nil, err
	}
	return out, nil
}

func (v podsView) inspect(uids []types.UID) []backend.PodFacts {
	now := v.lock()
	defer v.mu.Unlock()
	var out []backend.PodFacts
	seen := make(map[types.UID]bool, len(uids))
	for _, uid := range uids {
		if seen[uid] {
			continue
		}
		seen[uid] = true
		for _, a := range v.pods[uid] {
			if a.node == v.node && !a.isGone(now) {
				out = append(out, v.factsOf(a, now))
			}
		}
	}
	return out
}

// acceptAll refuses nothing: nothing runs, so nothing can be impossible.
func acceptAll(*corev1.Pod) []backend.Refusal { return nil }
