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
		g.Ask(func(context.Context) error { time.Sleep(time.Second); return nil })
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
		time.Sleep(6*time.Second - time.Nanosecond)
		if err := g.Permit("x"); err != nil {
			t.Errorf("%v", err)
		}
		time.Sleep(time.Nanosecond)
		if g.Permit("x") == nil {
			t.Error("changes long after the confirmation")
		}
	})
}

// TestAnswersOfTheRemote: one that does not answer ends nothing, one that names another
// leader ends the term.
func TestAnswersOfTheRemote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New()
		var answer error
		g.Ask(func(context.Context) error { return answer })
		for _, tt := range []struct {
			answer           error
			permits, outlive bool
		}{
			{backend.Errorf(backend.ErrUnavailable, "not taken yet"), false, false},
			{nil, true, true},
			{backend.Errorf(backend.ErrUnavailable, "cut"), false, true},
			{nil, true, true},
			{backend.Errorf(backend.ErrSuperseded, "b leads"), false, false},
			{nil, false, false},
		} {
			answer = tt.answer
			err := g.Confirm(t.Context(), time.Minute)
			permits, outlives := g.Permit("x") == nil, g.Outlives()
			if backend.Class(err) != backend.Class(answer) || permits != tt.permits || outlives != tt.outlive {
				t.Errorf("%v: permits %v, outlives %v: %v", tt.answer, permits, outlives, err)
			}
			time.Sleep(time.Minute)
		}
		<-g.Closed()
		if !g.Superseded() {
			t.Error("another leader was named")
		}
	})
}

// TestRefusalClosesTheGate: a change that the remote refuses for another leader's sake is
// the last one.
func TestRefusalClosesTheGate(t *testing.T) {
	g := New()
	g.Hold(time.Now().Add(time.Hour))
	answer := backend.Errorf(backend.ErrUnavailable, "cut")
	far := func(context.Context, *intercept.Call, func(context.Context) error) error { return answer }
	b := g.Wrap(intercept.Lend([]string{"Pods"}, far))
	if err := b.Pods.Remove(t.Context(), backend.Ref{}); backend.Class(err) != "Unavailable" || !g.Open() {
		t.Errorf("%v, open %v", err, g.Open())
	}
	answer = backend.Errorf(backend.ErrSuperseded, "b leads")
	err := b.Pods.Remove(t.Context(), backend.Ref{})
	if backend.Class(err) != "Superseded" || g.Open() || !g.Superseded() {
		t.Errorf("%v, open %v", err, g.Open())
	}
}
