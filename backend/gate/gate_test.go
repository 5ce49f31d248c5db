package gate

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/fault"
	"github.com/burstlet/burstlet/backend/intercept"
	"github.com/burstlet/burstlet/backend/sim"
)

func TestOpensUntilTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New()
		if g.Open() {
			t.Error("open before anybody held it")
		}
		g.Hold(time.Now().Add(10 * time.Second))
		g.Hold(time.Now().Add(time.Second)) // an older renewal, answered late
		time.Sleep(10*time.Second - 1)
		if !g.Open() {
			t.Error("closed within the deadline")
		}
		time.Sleep(time.Nanosecond)
		if g.Open() {
			t.Error("open at the deadline")
		}
		g.Hold(time.Now().Add(time.Hour))
		select {
		case <-g.Closed():
			t.Error("closed for ever by a deadline")
		default:
		}
		g.Close()
		g.Close()
		if <-g.Closed(); g.Open() {
			t.Error("open after Close")
		}
		if g.Hold(time.Now().Add(time.Hour)); g.Open() {
			t.Error("a renewal that was answered late opens a gate that was closed")
		}
		if !Always().Open() {
			t.Error("a gate without leader election is closed")
		}
	})
}

// TestBothClocks: a machine that slept is late by the wall clock alone, one
// whose clock was set back by the monotonic clock alone.
func TestBothClocks(t *testing.T) {
	now := time.Now()
	wall := func(d time.Duration) time.Time { return now.Round(0).Add(d) }
	if openAt(wall(2*time.Second), now.Add(time.Second)) {
		t.Error("open though the wall clock is past the deadline")
	}
	if openAt(now.Add(2*time.Second), now.Add(time.Second)) {
		t.Error("open though the monotonic clock is past the deadline")
	}
	if !openAt(now, now.Add(time.Second)) {
		t.Error("closed before the deadline")
	}
}

// TestBackend: with the gate closed no mutating call reaches the remote, every
// reading one does.
func TestBackend(t *testing.T) {
	script := &fault.Script{}
	b := fault.Wrap(sim.New(sim.Config{}).Backend(), script)
	g := New()
	b.Attach, b.Refresh = attacher{}, refreshes{}
	gated := g.Wrap(b)
	ctx := context.Background()
	pod := &corev1.Pod{}
	pod.UID = "u"
	change := map[string]func() error{
		"launch": func() error { return gated.Pods.Launch(ctx, ctx, backend.LaunchSpec{Pod: pod}) },
		"stop":   func() error { return gated.Pods.Stop(ctx, backend.Ref{UID: "u"}, 0) },
		"remove": func() error { return gated.Pods.Remove(ctx, backend.Ref{UID: "u"}) },
		"start": func() error {
			return gated.Containers.Start(ctx, backend.Ref{UID: "u"}, backend.ContainerSpec{Pod: pod})
		},
		"stopC": func() error { return gated.Containers.Stop(ctx, backend.ContainerRef{}, 0) },
		"resize": func() error {
			return gated.Resize.Resize(ctx, backend.ContainerRef{}, backend.ContainerSpec{Pod: pod})
		},
		"removeC": func() error { return gated.Containers.Remove(ctx, backend.ContainerRef{}) },
		"place":   func() error { return gated.Files.Place(ctx, backend.VolumeSpec{Pod: pod}) },
		"clear":   func() error { return gated.Files.Clear(ctx, backend.Ref{UID: "u"}) },
		"refresh": func() error { return gated.Refresh.Refresh(ctx, backend.Ref{UID: "u"}, nil) },
		"pull":    func() error { _, err := gated.Images.Pull(ctx, "busybox", nil); return err },
		"removeI": func() error { return gated.Store.Remove(ctx, "id") },
		"attach": func() error {
			return gated.Attach.Attach(ctx, backend.ContainerRef{}, backend.AttachSpec{})
		},
		"exec": func() error {
			_, err := gated.Exec.Exec(ctx, backend.ContainerRef{}, backend.ExecSpec{Command: []string{"true"}})
			return err
		},
	}
	for name, call := range change {
		if err := call(); !errors.Is(err, backend.ErrThrottled) {
			t.Errorf("%s passes a closed gate: %v", name, err)
		}
	}
	if err := change["launch"](); !backend.IsUnmade(err) {
		t.Errorf("a launch that was refused may have made something: %v", err)
	}
	if facts, err := gated.Pods.List(ctx); err != nil || len(facts) != 0 {
		t.Errorf("list: %v, %v", facts, err)
	}
	g.Hold(time.Now().Add(time.Hour))
	if err := change["launch"](); err != nil {
		t.Errorf("launch through the open gate: %v", err)
	}
	if facts, err := gated.Pods.List(ctx); err != nil || len(facts) != 1 {
		t.Errorf("list: %v, %v", facts, err)
	}
}

// refreshes renews nothing.
type refreshes struct{}

func (refreshes) Refresh(context.Context, backend.Ref, []backend.VolumeSpec) error { return nil }

// attacher attaches to nothing.
type attacher struct{}

func (attacher) Attach(context.Context, backend.ContainerRef, backend.AttachSpec) error { return nil }

// TestClosedByDefault: only calls of which the table says that they read pass a closed
// gate, and so does Run, which is asked again for each of its changes.
func TestClosedByDefault(t *testing.T) {
	g := New()
	var reached intercept.Name
	far := intercept.Lend(everything(), func(_ context.Context, c *intercept.Call, _ func(context.Context) error) error {
		reached = c.Name
		return nil
	})
	gated := g.Wrap(far)
	call := func(name intercept.Name) (passed bool, err error) {
		reached = ""
		_, err = intercept.Invoke(t.Context(), gated, name, func([]any) error { return nil })
		return reached == name, err
	}
	for _, m := range intercept.Methods() {
		if m.Kind == intercept.Local {
			continue
		}
		passed, err := call(m.Name)
		if want := m.Reads || m.Name == intercept.Run; passed != want || (err == nil) != want {
			t.Errorf("%s passes a closed gate: %v (%v), want %v", m.Name, passed, err, want)
		}
		if !passed && !errors.Is(err, backend.ErrThrottled) {
			t.Errorf("%s is refused as %v", m.Name, err)
		}
	}
	g.Hold(time.Now().Add(time.Hour))
	for _, m := range intercept.Methods() {
		if m.Kind == intercept.Local {
			continue
		}
		if passed, err := call(m.Name); !passed || err != nil {
			t.Errorf("%s does not pass the open gate: %v", m.Name, err)
		}
	}
}

// everything names all fields of the contract.
func everything() []string {
	var fields []string
	for _, m := range intercept.Methods() {
		fields = append(fields, m.Name.Field())
	}
	return fields
}

// TestSweep: what a node leaves behind is deleted only by who holds it.
func TestSweep(t *testing.T) {
	swept := 0
	g := New()
	gated := g.Wrap(backend.Backend{Sweep: func(context.Context) ([]string, error) { swept++; return []string{"a"}, nil }})
	if removed, err := gated.Sweep(t.Context()); swept > 0 || len(removed) > 0 || !errors.Is(err, backend.ErrThrottled) {
		t.Errorf("a sweep passes the closed gate: %v, %v", removed, err)
	}
	g.Hold(time.Now().Add(time.Hour))
	if removed, err := gated.Sweep(t.Context()); swept != 1 || len(removed) != 1 || err != nil {
		t.Errorf("with the gate open it removed %v, %v", removed, err)
	}
}

// TestRun: a backend runs whether the gate is open or not, and asks it before each change
// that it makes by itself.
func TestRun(t *testing.T) {
	g := New()
	var asked []error
	gated := g.Wrap(backend.Backend{Run: func(_ context.Context, may backend.Permit) error {
		asked = append(asked, may.Ask("collect garbage"))
		g.Hold(time.Now().Add(time.Hour))
		asked = append(asked, may.Ask("collect garbage"))
		g.Close()
		asked = append(asked, may.Ask("collect garbage"))
		return nil
	}})
	if err := gated.Run(t.Context(), backend.Always); err != nil {
		t.Fatal(err)
	}
	if len(asked) != 3 || asked[1] != nil ||
		!errors.Is(asked[0], backend.ErrThrottled) || !errors.Is(asked[2], backend.ErrThrottled) {
		t.Errorf("closed, open, closed: %v", asked)
	}
	open := Always().Wrap(backend.Backend{Run: func(_ context.Context, may backend.Permit) error {
		return may.Ask("anything")
	}})
	if err := open.Run(t.Context(), nil); !errors.Is(err, backend.ErrThrottled) {
		t.Errorf("an open gate permits what its caller did not: %v", err)
	}
}

func TestTransport(t *testing.T) {
	served := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
	defer server.Close()
	g := New()
	client := &http.Client{Transport: g.Transport(http.DefaultTransport)}
	do := func(method string) error {
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL, strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(r)
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	}
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		if err := do(method); !errors.Is(err, backend.ErrThrottled) {
			t.Errorf("%s passes a closed gate: %v", method, err)
		}
	}
	if err := do("GET"); err != nil || served != 1 {
		t.Errorf("GET: %v, %d requests served, want 1", err, served)
	}
	g.Hold(time.Now().Add(time.Hour))
	if err := do("PATCH"); err != nil {
		t.Errorf("PATCH through the open gate: %v", err)
	}
}
