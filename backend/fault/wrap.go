package fault

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// Wrap puts the script around every field of b that calls the remote.
func Wrap(b backend.Backend, s *Script) backend.Backend {
	w := b
	if b.Pods != nil {
		w.Pods = &pods{inner: b.Pods, script: s}
	}
	if b.Containers != nil {
		w.Containers = containers{b.Containers, s}
	}
	if b.Resize != nil {
		w.Resize = resizer{b.Resize, s}
	}
	if b.Files != nil {
		w.Files = &files{inner: b.Files, script: s}
	}
	if b.Refresh != nil {
		w.Refresh = refresher{b.Refresh, s}
	}
	if b.Images != nil {
		w.Images = images{b.Images, s}
	}
	if b.Store != nil {
		w.Store = &store{inner: b.Store, script: s}
	}
	if b.Events != nil {
		w.Events = events{b.Events, s}
	}
	wrapAccess(&w, b, s)
	return w
}

// wrapAccess is for what looks at pods or into them.
func wrapAccess(w *backend.Backend, b backend.Backend, s *Script) {
	if b.Exec != nil {
		w.Exec = execs{b.Exec, s}
	}
	if b.Attach != nil {
		w.Attach = attaches{b.Attach, s}
	}
	if b.Forward != nil {
		w.Forward = forwarder{b.Forward, s}
	}
	if b.Dial != nil {
		w.Dial = dialer{b.Dial, s}
	}
	if b.Logs != nil {
		w.Logs = logs{b.Logs, s}
	}
	if b.Node != nil {
		w.Node = node{b.Node, s}
	}
	if b.Stats != nil {
		w.Stats = &stats{inner: b.Stats, script: s}
	}
}

// do makes one call with the fault that the script draws for it. When it
// returns an error, whatever call returned is not to be used.
func (s *Script) do(ctx context.Context, c Call, call func() error) error {
	return s.next(c).apply(ctx, c, call)
}

// making is do for calls that make something, which may be made late.
func (s *Script) making(ctx context.Context, c Call, call func(context.Context) error) error {
	f := s.next(c)
	if f.Late <= 0 {
		return f.apply(ctx, c, func() error {
			err := call(ctx)
			if err == nil {
				s.count(c, 1)
			}
			return err
		})
	}
	before := s.count(c, 0)
	return s.later(ctx, f, c, func(ctx context.Context) {
		if s.count(c, 0) == before {
			_ = call(ctx) // nobody hears the reply
		}
	})
}

// later makes a call when its caller has gone on, and returns what the caller
// gets.
func (s *Script) later(ctx context.Context, f Fault, c Call, call func(context.Context)) error {
	s.late.Go(func() {
		ctx := context.WithoutCancel(ctx)
		if pause(ctx, f.Late) == nil {
			call(ctx)
		}
	})
	return backend.Errorf(backend.ErrUnavailable, "%w loss of the reply of %s, which is made late", ErrInjected, c.Method)
}

func (f Fault) apply(ctx context.Context, c Call, call func() error) error {
	if err := pause(ctx, f.Delay); err != nil {
		return backend.Errorf(backend.ErrUnavailable, "%w delay before %s: %w", ErrInjected, c.Method, err)
	}
	if f.Err != nil {
		return f.Err
	}
	if err := call(); err != nil {
		return err
	}
	if err := pause(ctx, f.ReplyDelay); err != nil {
		return backend.Errorf(backend.ErrUnavailable, "%w delay after %s: %w", ErrInjected, c.Method, err)
	}
	if f.LoseReply {
		return backend.Errorf(backend.ErrUnavailable, "%w loss of the reply of %s", ErrInjected, c.Method)
	}
	return nil
}

// pause returns at once for no duration, also when the context has ended: the
// call itself then answers.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type containers struct {
	inner  backend.Containers
	script *Script
}

func (w containers) Start(ctx context.Context, ref backend.Ref, spec backend.ContainerSpec) error {
	c := Call{Method: ContainersStart, UID: ref.UID, Container: spec.Container.Name, Attempt: spec.Attempt}
	return w.script.making(ctx, c, func(ctx context.Context) error { return w.inner.Start(ctx, ref, spec) })
}

func (w containers) Stop(ctx context.Context, ref backend.ContainerRef, grace time.Duration) error {
	c := Call{Method: ContainersStop, UID: ref.Pod.UID, Container: ref.Name}
	return w.script.do(ctx, c, func() error { return w.inner.Stop(ctx, ref, grace) })
}

func (w containers) Remove(ctx context.Context, ref backend.ContainerRef) error {
	c := Call{Method: ContainersRemove, UID: ref.Pod.UID, Container: ref.Name}
	return w.script.do(ctx, c, func() error { return w.inner.Remove(ctx, ref) })
}

type images struct {
	inner  backend.Images
	script *Script
}

func (w images) Find(ctx context.Context, image string) (string, error) {
	var id string
	err := w.script.do(ctx, Call{Method: ImagesFind}, func() (err error) {
		id, err = w.inner.Find(ctx, image)
		return err
	})
	if err != nil {
		return "", err
	}
	return id, nil
}

func (w images) Pull(ctx context.Context, image string, creds []backend.Credential) (string, error) {
	var id string
	err := w.script.do(ctx, Call{Method: ImagesPull}, func() (err error) {
		id, err = w.inner.Pull(ctx, image, creds)
		return err
	})
	if err != nil {
		return "", err
	}
	return id, nil
}

type node struct {
	inner  backend.Node
	script *Script
}

func (w node) Describe(ctx context.Context) (backend.NodeFacts, error) {
	var facts backend.NodeFacts
	err := w.script.do(ctx, Call{Method: NodeDescribe}, func() (err error) {
		facts, err = w.inner.Describe(ctx)
		return err
	})
	if err != nil {
		return backend.NodeFacts{}, err
	}
	return facts, nil
}

// first is the only pod of a call, if there is one.
func first(uids []types.UID) types.UID {
	if len(uids) == 1 {
		return uids[0]
	}
	return ""
}
