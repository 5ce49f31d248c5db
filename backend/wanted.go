package backend

import "context"

// wantedKey is of the context that While puts into another.
type wantedKey struct{}

// While is ctx for a call that makes something, which is wanted until the context
// wanted ends (the pod is to end). What is sent to the remote keeps to ctx alone:
// it is left to return, for nobody knew what became of it. What waits before that
// ends with Wanted.
func While(ctx, wanted context.Context) context.Context {
	return context.WithValue(ctx, wantedKey{}, wanted)
}

// Wanted is ctx for a wait before anything was sent: it ends also when what the
// call was to make is not wanted any more. Without While it is ctx.
func Wanted(ctx context.Context) (context.Context, context.CancelFunc) {
	wanted, ok := ctx.Value(wantedKey{}).(context.Context)
	if !ok {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(wanted, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
