package cri

import (
	"context"
	"math"
	"os"
	"sync"
	"testing"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/transport"
)

// TestSuccessorOnTheHost: once the next leader runs, whatever the first asks for is refused
// on the host, although it is permitted where it is asked for.
func TestSuccessorOnTheHost(t *testing.T) {
	var mu sync.Mutex
	reached := map[string]int{}
	w := newWorld(t, func(s *fakecri.Server) {
		s.Before = func(_ context.Context, method string, _ any) error {
			mu.Lock()
			defer mu.Unlock()
			reached[method]++
			return nil
		}
	})
	changes := func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, service := range []*grpc.ServiceDesc{
			&runtimeapi.RuntimeService_ServiceDesc, &runtimeapi.ImageService_ServiceDesc,
		} {
			for _, m := range service.Methods {
				if transport.OnHost("/" + service.ServiceName + "/" + m.MethodName) {
					n += reached[m.MethodName]
				}
			}
		}
		return n
	}
	w.cfg.Leader = "a"
	a, _ := w.connect(t)
	pod, ctx := testPod("u1"), t.Context()
	ref := runPod(t, a, pod, "main")
	must(t, a.backend().Confirm(ctx))
	before := changes()
	if before == 0 {
		t.Fatal("no change is counted")
	}

	w.cfg.Leader = "b"
	b, _ := w.connect(t)
	eventually(t, "the next leader takes the node", func() bool { return b.backend().Confirm(ctx) == nil })
	wantClass(t, a.backend().Confirm(ctx), backend.ErrSuperseded)
	emptyDir := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	for what, err := range map[string]error{
		"launch": pods{a}.Launch(ctx, ctx, launchSpec(testPod("u2"), 0)),
		"start":  containers{a}.Start(ctx, ref, containerSpec(pod, "main", 1)),
		"remove": pods{a}.Remove(ctx, ref),
		"place":  files{a}.Place(ctx, backend.VolumeSpec{Pod: pod, Name: "v", Source: emptyDir}),
		"clear":  files{a}.Clear(ctx, ref),
		"sweep":  func() error { _, err := a.sweepAll(ctx); return err }(),
		"rotate": func() error {
			_, err := a.host.Rotate(ctx, host.Rotation{MaxSize: math.MaxInt64, MaxFiles: 2})
			return err
		}(),
	} {
		if backend.Class(err) != "Superseded" {
			t.Errorf("%s: %v (%s)", what, err, backend.Class(err))
		}
	}
	if n := changes(); n != before {
		t.Errorf("%d changes of the first leader reached the runtime after its successor had come", n-before)
	}
	if facts := inspect(t, b, "u1"); !facts.Live {
		t.Errorf("%+v", facts)
	}
	must(t, containers{b}.Start(ctx, ref, containerSpec(pod, "main", 1)))
}

// TestTakenOnlyWithALease: a leader whose lease has ended takes no node, and changes
// nothing on its host.
func TestTakenOnlyWithALease(t *testing.T) {
	w := newWorld(t)
	w.may = func(string) error { return backend.Errorf(backend.ErrThrottled, "no lease") }
	w.cfg.Leader = "a"
	r, _ := w.connect(t)
	wantClass(t, pods{r}.Launch(t.Context(), t.Context(), launchSpec(testPod("u1"), 0)), backend.ErrThrottled)
	wantClass(t, r.backend().Confirm(t.Context()), backend.ErrUnavailable)
	if entries, _ := os.ReadDir(w.cfg.PodsDir); len(entries) > 0 {
		t.Errorf("on the host: %v", entries)
	}
}

// TestLastTraceOfALeader: a node that is taken away leaves no record, and nothing makes one
// anew.
func TestLastTraceOfALeader(t *testing.T) {
	w := newWorld(t)
	w.cfg.Leader = "a"
	r, _ := w.connect(t)
	eventually(t, "the node is taken", func() bool { return r.backend().Confirm(t.Context()) == nil })
	for range 2 {
		if removed, err := r.sweepAll(t.Context()); len(removed) > 0 || err != nil {
			t.Fatalf("%v, %v", removed, err)
		}
	}
	r.sweep(t.Context(), backend.Always)
	wantClass(t, pods{r}.Launch(t.Context(), t.Context(), launchSpec(testPod("u1"), 0)), backend.ErrUnavailable)
	if entries, err := os.ReadDir(w.cfg.PodsDir); len(entries) > 0 || err != nil {
		t.Errorf("left on the host: %v, %v", entries, err)
	}
}

// TestNoElectionNoRecord: a process that alone has its node leaves nothing on the host.
func TestNoElectionNoRecord(t *testing.T) {
	w := newWorld(t)
	r, _ := w.connect(t)
	runPod(t, r, testPod("u1"), "main")
	if entries, _ := os.ReadDir(w.cfg.PodsDir); r.backend().Confirm != nil || len(entries) > 0 {
		t.Errorf("on the host: %v", entries)
	}
}
