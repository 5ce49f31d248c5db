package fault

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

type pods struct {
	inner  backend.Pods
	script *Script
	memory memory[backend.PodFacts] // of List
}

func (w *pods) Launch(ctx context.Context, spec backend.LaunchSpec) error {
	c := Call{Method: PodsLaunch, Attempt: spec.Attempt}
	if spec.Pod != nil {
		c.UID = spec.Pod.UID
	}
	return w.script.making(ctx, c, func(ctx context.Context) error { return w.inner.Launch(ctx, spec) })
}

func (w *pods) Stop(ctx context.Context, ref backend.Ref, grace time.Duration) error {
	c := Call{Method: PodsStop, UID: ref.UID}
	return w.script.do(ctx, c, func() error { return w.inner.Stop(ctx, ref, grace) })
}

func (w *pods) Remove(ctx context.Context, ref backend.Ref) error {
	c := Call{Method: PodsRemove, UID: ref.UID}
	return w.script.do(ctx, c, func() error { return w.inner.Remove(ctx, ref) })
}

func (w *pods) List(ctx context.Context) ([]backend.PodFacts, error) {
	facts, err := read(ctx, w.script, Call{Method: PodsList}, w.old, func() ([]backend.PodFacts, error) {
		from := time.Now()
		facts, err := w.inner.List(ctx)
		if err == nil {
			w.memory.keep(clone(facts), from)
		}
		return facts, err
	})
	w.script.skew(facts)
	return facts, err
}

func (w *pods) Inspect(ctx context.Context, uids []types.UID) ([]backend.PodFacts, error) {
	named := func(most time.Duration) ([]backend.PodFacts, bool) {
		facts, ok := w.old(most)
		return slices.DeleteFunc(facts, func(f backend.PodFacts) bool { return !slices.Contains(uids, f.UID) }), ok
	}
	c := Call{Method: PodsInspect, UID: first(uids)}
	facts, err := read(ctx, w.script, c, named, func() ([]backend.PodFacts, error) { return w.inner.Inspect(ctx, uids) })
	w.script.skew(facts)
	return facts, err
}

// old is what the last List said.
func (w *pods) old(most time.Duration) ([]backend.PodFacts, bool) {
	facts, ok := w.memory.old(most)
	return clone(facts), ok
}

// clone copies facts as deep as a reader may change them.
func clone(facts []backend.PodFacts) []backend.PodFacts {
	out := slices.Clone(facts)
	for i := range out {
		out[i].IPs = slices.Clone(out[i].IPs)
		out[i].HostIPs = slices.Clone(out[i].HostIPs)
		out[i].Containers = slices.Clone(out[i].Containers)
	}
	return out
}
