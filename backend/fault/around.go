package fault

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/intercept"
	"github.com/burstlet/burstlet/backend/pause"
)

// Wrap puts the script around every call of b that asks the remote, but for Run, which
// lasts as long as b.
func Wrap(b backend.Backend, s *Script) backend.Backend {
	return intercept.Wrap(b, (&faulty{script: s}).around)
}

// faulty is a backend that is wrapped, and what it last said.
type faulty struct {
	script  *Script
	pods    memory[backend.PodFacts] // of List
	volumes memory[backend.VolumeFacts]
	images  memory[backend.ImageFacts]
	stats   memory[backend.StatsFacts]
}

func (w *faulty) around(ctx context.Context, call *intercept.Call, next func(context.Context) error) error {
	if call.Kind == intercept.Background {
		return next(ctx)
	}
	c := callOf(call)
	switch reply := call.Reply.(type) {
	case *[]backend.PodFacts:
		return w.readPods(ctx, c, call, reply, next)
	case *[]backend.VolumeFacts:
		return read(ctx, w.script, c, reply, listing[backend.VolumeFacts]{
			next: next, memory: &w.volumes, skew: w.script.skewVolumes,
		})
	case *[]backend.ImageFacts:
		return read(ctx, w.script, c, reply, listing[backend.ImageFacts]{next: next, memory: &w.images})
	case *backend.StatsFacts:
		return w.readStats(ctx, c, reply, next)
	}
	if call.Name == intercept.EventsRun {
		return w.follow(ctx, c, intercept.Arg[chan<- types.UID](call), next)
	}
	f := w.script.next(c)
	if f.Late > 0 && call.Makes {
		return w.later(ctx, f, c, call, next)
	}
	err := f.apply(ctx, c, func() error {
		err := next(ctx)
		if err == nil && call.Makes {
			w.script.count(c, 1)
		}
		return err
	})
	if err != nil {
		call.Drop()
	}
	return err
}

// callOf is a call as scripts know it.
func callOf(call *intercept.Call) Call {
	s := call.Subject()
	return Call{Method: call.Name, UID: s.Pod, Container: s.Container, Volume: s.Volume, Attempt: s.Attempt}
}

// later makes a call when its caller has gone on, and returns what the caller gets.
// One that may be repeated is settled by a twin that succeeded meanwhile. A command
// runs once more, without the caller's streams.
func (w *faulty) later(
	ctx context.Context, f Fault, c Call, call *intercept.Call, next func(context.Context) error,
) error {
	s := w.script
	before := s.count(c, 0)
	call.Detach()
	if call.Name == intercept.ExecExec {
		spec := intercept.Arg[backend.ExecSpec](call)
		*spec = backend.ExecSpec{Command: spec.Command}
	}
	s.late.Go(func() {
		ctx := context.WithoutCancel(ctx)
		if delay(ctx, f.Late) != nil || call.Idempotent && s.count(c, 0) != before {
			return
		}
		_ = next(ctx) // nobody hears the reply
	})
	return backend.Errorf(backend.ErrUnavailable, "%w loss of the reply of %s, which is made late", ErrInjected, c.Method)
}

func (f Fault) apply(ctx context.Context, c Call, call func() error) error {
	if err := delay(ctx, f.Delay); err != nil {
		return backend.Errorf(backend.ErrUnavailable, "%w delay before %s: %w", ErrInjected, c.Method, err)
	}
	if f.Err != nil {
		return f.Err
	}
	if err := call(); err != nil {
		return err
	}
	if err := delay(ctx, f.ReplyDelay); err != nil {
		return backend.Errorf(backend.ErrUnavailable, "%w delay after %s: %w", ErrInjected, c.Method, err)
	}
	if f.LoseReply {
		return backend.Errorf(backend.ErrUnavailable, "%w loss of the reply of %s", ErrInjected, c.Method)
	}
	return nil
}

// delay returns at once for no duration, also when the context has ended: the
// call itself then answers.
func delay(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	return pause.For(ctx, d)
}

// readPods makes a listing of pods. An inspection that is stale has what the last
// complete listing said of its pods.
func (w *faulty) readPods(
	ctx context.Context, c Call, call *intercept.Call, reply *[]backend.PodFacts, next func(context.Context) error,
) error {
	l := listing[backend.PodFacts]{next: next, memory: &w.pods, copy: clone, skew: w.script.skewPods}
	if call.Name == intercept.PodsInspect {
		uids := *intercept.Arg[[]types.UID](call)
		l.part = func(f backend.PodFacts) bool { return slices.Contains(uids, f.UID) }
	}
	return read(ctx, w.script, c, reply, l)
}

// readStats makes a measurement. One that is partial is an error, as any listing that is
// cut short; a stale one has the times of when it was measured.
func (w *faulty) readStats(
	ctx context.Context, c Call, reply *backend.StatsFacts, next func(context.Context) error,
) error {
	var all []backend.StatsFacts
	err := read(ctx, w.script, c, &all, listing[backend.StatsFacts]{
		next: func(ctx context.Context) error {
			err := next(ctx)
			all = []backend.StatsFacts{*reply}
			return err
		},
		memory: &w.stats,
	})
	*reply = backend.StatsFacts{}
	if err == nil {
		*reply = w.script.skewStats(all[0])
	}
	return err
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
