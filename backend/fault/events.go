package fault

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

type events struct {
	inner  backend.Events
	script *Script
}

// Run passes hints on, but for those that the script drops, delays or repeats.
// A fault of EventsRun breaks the stream before it begins.
func (w events) Run(ctx context.Context, hints chan<- types.UID) error {
	return w.script.do(ctx, Call{Method: EventsRun}, func() error { return w.run(ctx, hints) })
}

func (w events) run(ctx context.Context, hints chan<- types.UID) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	inner := make(chan types.UID)
	var end error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		end = w.inner.Run(ctx, inner)
	}()
	for {
		select {
		case uid := <-inner:
			if err := w.pass(ctx, uid, hints); err != nil {
				cancel()
				<-ended // for our reason: the context ended or the script broke the stream
				return err
			}
		case <-ended:
			return end
		}
	}
}

// pass sends one hint on, as often as the script says.
func (w events) pass(ctx context.Context, uid types.UID, hints chan<- types.UID) error {
	f := w.script.next(Call{Method: Hint, UID: uid})
	if f.Err != nil {
		return f.Err
	}
	if f.Drop {
		return nil
	}
	if err := pause(ctx, f.Delay); err != nil {
		return backend.Errorf(backend.ErrUnavailable, "pass hint: %w", err)
	}
	for range 1 + max(f.Repeat, 0) {
		select {
		case hints <- uid:
		case <-ctx.Done():
			return backend.Errorf(backend.ErrUnavailable, "pass hint: %w", ctx.Err())
		}
	}
	return nil
}
