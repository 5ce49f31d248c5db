package gate

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/intercept"
)

// TestConfirmedTermOutlivesItsLease: what the remote confirms may be changed there, and
// nothing in the API; what it confirmed long ago may not.
func TestConfirmedTermOutlivesItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New()
		if err := g.Confirm(t.Context(), time.Hour); g.Asks() || g.Outlives() || backend.Class(err) != "Unsupported" {
			t.Errorf("a remote that has no say: %v", err)
		}
		var answer error
		g.Ask(func(context.Context) error { time.Sleep(time.Second); return answer })
		g.Hold(time.Now().Add(5 * time.Second))
		if g.Outlives() || g.Left() != 5*time.Second {
			t.Errorf("outlives before it was confirmed, %v left", g.Left())
		}
		time.Sleep(time.Minute)
		if g.Permit("x") == nil {
			t.Error("changes without lease and confirmation")
		}
		if err := g.Confirm(t.Context(), 7*time.Second); err != nil { // from the asking: 6 s are left
			t.Fatal(err)
		}
		server := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "http://api/x", nil)
		if _, err := g.Transport(nil).RoundTrip(server); err == nil || g.Open() {
			t.Errorf("a write to the API passes without the lease: %v", err)
		}
		time.Sleep(6*time.Second - 1)
		if err := g.Permit("x"); err != nil {
			t.Errorf("%v", err)
		}
		time.Sleep(time.Nanosecond)
		if g.Permit("x") == nil {
			t.Error("changes long after the confirmation")
		}
	})
}

// TestRemoteEndsATerm: a remote that does not answer ends nothing, one that names another
// leader ends the term for ever.
func TestRemoteEndsATerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New()
		var answer error
		g.Ask(func(context.Context) error { return answer })
		if err := g.Confirm(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		answer = backend.Errorf(backend.ErrUnavailable, "cut")
		if err := g.Confirm(t.Context(), time.Hour); err == nil || !g.Outlives() || g.Permit("x") == nil {
			t.Errorf("a remote that does not answer: %v", err)
		}
		answer = nil
		if err := g.Confirm(t.Context(), time.Hour); err != nil || g.Permit("x") != nil {
			t.Errorf("it answers again: %v", err)
		}
		answer = backend.Errorf(backend.ErrSuperseded, "b leads")
		if err := g.Confirm(t.Context(), time.Hour); err == nil {
			t.Error("confirmed")
		}
		<-g.Closed()
		if g.Permit("x") == nil || g.Outlives() || !g.Superseded() {
			t.Error("changes after another leader was named")
		}
	})
}

// TestRefusalClosesTheGate: a change that the remote refuses for another leader's sake is
// the last one.
func TestRefusalClosesTheGate(t *testing.T) {
	g := New()
	g.Hold(time.Now().Add(time.Hour))
	answer := backend.Errorf(backend.ErrUnavailable, "cut")
	b := g.Wrap(intercept.Lend([]string{"Pods"}, func(context.Context, *intercept.Call, func(context.Context) error) error {
		return answer
	}))
	if err := b.Pods.Remove(t.Context(), backend.Ref{}); backend.Class(err) != "Unavailable" || !g.Open() {
		t.Errorf("%v, open %v", err, g.Open())
	}
	answer = backend.Errorf(backend.ErrSuperseded, "b leads")
	if err := b.Pods.Remove(t.Context(), backend.Ref{}); backend.Class(err) != "Superseded" || g.Open() || !g.Superseded() {
		t.Errorf("%v, open %v", err, g.Open())
	}
}
