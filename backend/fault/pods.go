package fault

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

type pods struct {
	inner  backend.Pods
	script *Script

	mu sync.Mutex
	// listed is the last complete answer of List, for stale ones; seen says
	// that there was one.
	listed []backend.PodFacts
	seen   bool
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
	c := Call{Method: PodsList}
	return w.read(ctx, c, nil, func() ([]backend.PodFacts, error) {
		facts, err := w.inner.List(ctx)
		if err == nil {
			w.keep(facts)
		}
		return facts, err
	})
}

func (w *pods) Inspect(ctx context.Context, uids []types.UID) ([]backend.PodFacts, error) {
	c := Call{Method: PodsInspect, UID: first(uids)}
	named := append([]types.UID{}, uids...) // never nil: nil is all
	return w.read(ctx, c, named, func() ([]backend.PodFacts, error) { return w.inner.Inspect(ctx, uids) })
}

// reading is the call behind a listing.
type reading func() ([]backend.PodFacts, error)

// read makes a listing, complete, cut short, or from memory. uids nil is all.
func (w *pods) read(ctx context.Context, c Call, uids []types.UID, call reading) ([]backend.PodFacts, error) {
	f := w.script.next(c)
	var facts []backend.PodFacts
	err := f.apply(ctx, c, func() (err error) {
		if old, ok := w.old(uids); f.Stale && ok {
			facts = old
			return nil
		}
		facts, err = call()
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case f.Partial:
		return half(facts), backend.Errorf(backend.ErrUnavailable, "injected break in the middle of %s", c.Method)
	}
	return facts, nil
}

func (w *pods) keep(facts []backend.PodFacts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listed, w.seen = clone(facts), true
}

// old is what the last List said, of all pods or of those named.
func (w *pods) old(uids []types.UID) ([]backend.PodFacts, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.seen {
		return nil, false
	}
	facts := clone(w.listed)
	if uids == nil {
		return facts, true
	}
	return slices.DeleteFunc(facts, func(f backend.PodFacts) bool { return !slices.Contains(uids, f.UID) }), true
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

// half is every second pod.
func half(facts []backend.PodFacts) []backend.PodFacts {
	var out []backend.PodFacts
	for i := 0; i < len(facts); i += 2 {
		out = append(out, facts[i])
	}
	return out
}
