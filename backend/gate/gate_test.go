package gate

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/fault"
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
		"launch": func() error { return gated.Pods.Launch(ctx, backend.LaunchSpec{Pod: pod}) },
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

// TestEveryCallIsJudged: a call that is added to the contract is let through by
// nobody's decision; here it is decided.
func TestEveryCallIsJudged(t *testing.T) {
	change := map[string]bool{
		"Pods.Launch": true, "Pods.Stop": true, "Pods.Remove": true,
		"Containers.Start": true, "Containers.Stop": true, "Containers.Remove": true, "Resize.Resize": true,
		"Files.Place": true, "Files.Clear": true, "Refresh.Refresh": true, "Images.Pull": true, "Store.Remove": true, "Exec.Exec": true, "Attach.Attach": true,
	}
	read := map[string]bool{
		"Pods.List": true, "Pods.Inspect": true, "Files.Volumes": true, "Images.Find": true, "Store.List": true, "Store.Disk": true, "Events.Run": true,
		"Logs.Open": true, "Dial.Dial": true, "Forward.Forward": true, "Stats.Stats": true, "Node.Describe": true, "Check.Check": true,
	}
	contract := reflect.TypeFor[backend.Backend]()
	for i := range contract.NumField() {
		field := contract.Field(i)
		if field.Type.Kind() != reflect.Interface {
			continue
		}
		for j := range field.Type.NumMethod() {
			name := field.Name + "." + field.Type.Method(j).Name
			if change[name] == read[name] {
				t.Errorf("%s: say here whether it changes the remote; if so, the gate must be before it", name)
			}
		}
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
