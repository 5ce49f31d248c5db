package fault

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// follow passes hints on, but for those that the script drops, delays or repeats. A
// fault of EventsRun breaks the stream before it begins.
func (w *faulty) follow(ctx context.Context, c Call, hints *chan<- types.UID, next func(context.Context) error) error {
	return w.script.next(c).apply(ctx, c, func() error {
		out, inner := *hints, make(chan types.UID)
		*hints = inner
		return w.passAll(ctx, inner, out, next)
	})
}

// passAll runs the stream behind inner, and hands on what it says to out.
func (w *faulty) passAll(
	ctx context.Context, inner <-chan types.UID, out chan<- types.UID, next func(context.Context) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var end error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		end = next(ctx)
	}()
	for {
		select {
		case uid := <-inner:
			if err := w.pass(ctx, uid, out); err != nil {
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
func (w *faulty) pass(ctx context.Context, uid types.UID, hints chan<- types.UID) error {
	f := w.script.next(Call{Method: Hint, UID: uid})
	if f.Err != nil {
		return f.Err
	}
	if f.Drop {
		return nil
	}
	if err := delay(ctx, f.Delay); err != nil {
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
