package simrpc

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/intercept"
)

// TestNoChangeLeavesAfterTheTerm: a call that was permitted waits for its connection, and
// the term ends meanwhile. What changes something is not sent any more; what reads is.
func TestNoChangeLeavesAfterTheTerm(t *testing.T) {
	for _, leader := range []string{"", "a"} {
		for _, m := range intercept.Methods() {
			if m.Kind == intercept.Local || m.Kind == intercept.Background || m.Name == intercept.Confirm || ofRealHosts(m) {
				continue
			}
			t.Run(string(m.Name)+" of "+leader, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { leavesLate(t, leader, m) })
			})
		}
	}
}

func leavesLate(t *testing.T, leader string, m intercept.Method) {
	var reached, over atomic.Bool
	far := func(context.Context, *intercept.Call, func(context.Context) error) error {
		reached.Store(true)
		return backend.Errorf(backend.ErrInvalid, "reached")
	}
	w := serve(t, func(string) backend.Backend { return intercept.Lend(carriedFields(), far) })
	dial := w.pipes.dial
	b, err := Connect(t.Context(), Config{
		Node: "node", Version: "test", Check: takesAll, Leader: leader,
		May: func(string) error {
			if over.Load() {
				return backend.Errorf(backend.ErrThrottled, "the term is over")
			}
			return nil
		},
		dial: func(ctx context.Context) (net.Conn, error) { return dial(ctx) },
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, b)
	dial = func(ctx context.Context) (net.Conn, error) {
		over.Store(true) // while the call waits
		return w.pipes.dial(ctx)
	}
	time.Sleep(2 * idleTimeout) // the call makes a connection of its own
	_, err = intercept.Invoke(t.Context(), b, m.Name, func([]any) error { return nil })
	if reached.Load() != m.Reads {
		t.Errorf("it reaches the remote: %v (%v)", reached.Load(), err)
	}
	if m.Reads {
		return
	}
	wantClass(t, err, "Throttled")
	if backend.IsUnmade(err) != (m.Name == intercept.PodsLaunch) {
		t.Errorf("it says that nothing was made: %v", backend.IsUnmade(err))
	}
}
