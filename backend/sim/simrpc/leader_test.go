package simrpc

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/intercept"
)

// TestSuccessorOnTheSim: once the next leader is connected, the server makes no change that
// the first asks for, and every call that reads.
func TestSuccessorOnTheSim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reached := map[intercept.Name]bool{}
		far := func(_ context.Context, c *intercept.Call, _ func(context.Context) error) error {
			reached[c.Name] = true
			return backend.Errorf(backend.ErrInvalid, "reached")
		}
		full := intercept.Lend(carriedFields(), far)
		w := serve(t, func(string) backend.Backend { return full })
		may := backend.Errorf(backend.ErrThrottled, "no lease")
		lead := func(name string) backend.Backend {
			b, err := Connect(t.Context(), Config{
				Node: "node", Version: "test", Check: takesAll, dial: w.pipes.dial, Leader: name,
				May: func(string) error { return may },
			})
			if err != nil {
				t.Fatal(err)
			}
			run(t, b)
			return b
		}
		a := lead("a")
		wantClass(t, a.Confirm(t.Context()), "Unavailable") // its lease has ended
		wantClass(t, a.Pods.Remove(t.Context(), backend.Ref{}), "Throttled")
		may = nil
		wantClass(t, a.Pods.Remove(t.Context(), backend.Ref{}), "Invalid")
		wantClass(t, a.Confirm(t.Context()), "")
		b := lead("b")
		wantClass(t, b.Confirm(t.Context()), "")
		wantClass(t, a.Confirm(t.Context()), "Superseded")
		clear(reached)
		for _, m := range intercept.Methods() {
			if m.Kind == intercept.Local || m.Kind == intercept.Background || m.Name == intercept.Confirm || ofRealHosts(m) {
				continue
			}
			call := func(b backend.Backend) error {
				_, err := intercept.Invoke(t.Context(), b, m.Name, func([]any) error { return nil })
				return err
			}
			if err := call(a); reached[m.Name] != m.Reads || !m.Reads && backend.Class(err) != "Superseded" {
				t.Errorf("%s of the first leader reaches the remote: %v: %v", m.Name, reached[m.Name], err)
			}
			if err := call(b); !reached[m.Name] {
				t.Errorf("%s of the last leader does not reach the remote: %v", m.Name, err)
			}
		}
	})
}
