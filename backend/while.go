package backend

import "context"

// While is ctx for what a call waits for before it sends anything: it ends also with
// wanted, when what the call was to make is not wanted any more.
func While(ctx, wanted context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(wanted, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
