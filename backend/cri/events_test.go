package cri

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
)

// follow runs the events of a backend until the test ends.
func follow(t *testing.T, w *world, r *remote) <-chan types.UID {
	t.Helper()
	hints := make(chan types.UID)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.events.Run(ctx, hints) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("events: %v", err)
		}
	})
	if w.fake.CRIEvents == nil {
		eventually(t, "the stream is open", func() bool { return w.fake.Subscribers() == 1 })
	}
	return hints
}

func wantHint(t *testing.T, hints <-chan types.UID, want types.UID) {
	t.Helper()
	select {
	case got := <-hints:
		if got != want {
			t.Errorf("hint of %q, want %q", got, want)
		}
	case <-time.After(3 * time.Minute):
		t.Errorf("no hint of %q", want)
	}
}

func TestContainerdEvents(t *testing.T) {
	w := newWorld(t)
	other := *w
	other.cfg.NodeIdentity = "node-b"
	theirs, _ := other.connect(t)
	runPod(t, theirs, testPod("u9"), "foreign")
	foreign, _ := w.fake.Container("foreign")

	r, _ := w.connect(t)
	runPod(t, r, testPod("u1"), "main")
	main, _ := w.fake.Container("main")
	fresh, _ := w.connect(t) // knows no ids
	hints := follow(t, w, fresh)

	// What must give no hint comes before what must.
	w.fake.Emit("/tasks/start", main, "") // of a call that is not ours, or has not returned
	w.fake.Emit("/tasks/oom", foreign, "")
	w.fake.Emit("/tasks/oom", foreign, "")
	w.fake.Emit("/tasks/oom", "nobody", "")
	w.fake.Emit("/tasks/exit", main, "an-exec")
	w.fake.Emit("/tasks/oom", main, "")
	wantHint(t, hints, "u1")
	if n := w.fake.Calls("ContainerStatus"); n != 3 {
		t.Errorf("%d look-ups of containers, want one for each id", n)
	}
	w.fake.Emit("/tasks/start", main, "")
	wantHint(t, hints, "u1")
	w.fake.Emit("/containers/delete", inspect(t, r, "u1").ID, "")
	wantHint(t, hints, "u1")
}

func TestCRIEvents(t *testing.T) {
	for _, runtime := range []string{"containerd 2.0.0", "cri-o 1.33.0"} {
		t.Run(runtime, func(t *testing.T) {
			w := newWorld(t, func(s *fakecri.Server) {
				s.Runtime, s.CRIEvents = runtime, make(chan *runtimeapi.ContainerEventResponse)
			})
			r, _ := w.connect(t)
			runPod(t, r, testPod("u1"), "main")
			id, _ := w.fake.Container("main")
			hints := follow(t, w, r)
			box := func(node string) *runtimeapi.PodSandboxStatus {
				return &runtimeapi.PodSandboxStatus{
					Metadata: &runtimeapi.PodSandboxMetadata{Uid: "u2"}, Labels: map[string]string{convert.LabelNode: node},
				}
			}
			w.fake.CRIEvents <- &runtimeapi.ContainerEventResponse{ContainerId: "x", PodSandboxStatus: box("node-b")}
			w.fake.CRIEvents <- &runtimeapi.ContainerEventResponse{ContainerId: "x", PodSandboxStatus: box("node-a")}
			wantHint(t, hints, "u2")
			w.fake.CRIEvents <- &runtimeapi.ContainerEventResponse{ContainerId: id}
			wantHint(t, hints, "u1")
			if n := w.fake.Subscribers(); n != 0 {
				t.Errorf("%d subscriptions to containerd beside CRI's events", n)
			}
		})
	}
}

// containerd 1.7 gives each of CRI's events to one of those who follow them: two nodes on
// one host would have a part of theirs each.
func TestNodesOnOneContainerd17HearOfAllTheirPods(t *testing.T) {
	const each = 8
	w := newWorld(t, func(s *fakecri.Server) {
		s.Runtime, s.CRIEvents = "containerd 1.7.24", make(chan *runtimeapi.ContainerEventResponse, 2*each)
	})
	var hints []<-chan types.UID
	var ids []string
	for i, node := range []string{"node-a", "node-b"} {
		w.cfg.NodeIdentity = node
		r, _ := w.connect(t)
		runPod(t, r, testPod(node), node)
		id, _ := w.fake.Container(node)
		ids, hints = append(ids, id), append(hints, follow(t, w, r))
		eventually(t, "the stream is open", func() bool { return w.fake.Subscribers() == i+1 })
	}
	for range each {
		for _, id := range ids {
			w.fake.CRIEvents <- &runtimeapi.ContainerEventResponse{ContainerId: id}
			w.fake.Emit("/tasks/oom", id, "")
			for i, node := range []types.UID{"node-a", "node-b"} {
				if ids[i] == id {
					wantHint(t, hints[i], node)
				}
			}
		}
	}
}

func TestExitHintWaitsForCRI(t *testing.T) {
	var id atomic.Value // of the container, once it is asked about its exit
	var asked atomic.Int32
	w := newWorld(t, func(s *fakecri.Server) {
		s.Before = func(_ context.Context, method string, _ any) error {
			if ends, ok := id.Load().(string); ok && method == "ContainerStatus" && asked.Add(1) == 3 {
				s.Exit(ends, 0, "Completed")
			}
			return nil
		}
	})
	r, _ := w.connect(t)
	runPod(t, r, testPod("u1"), "main")
	hints := follow(t, w, r)
	main, _ := w.fake.Container("main")
	id.Store(main)
	w.fake.Emit("/tasks/exit", main, main) // containerd is ahead of CRI
	wantHint(t, hints, "u1")
	if n := asked.Load(); n < 3 {
		t.Errorf("hint when CRI was asked %d times and said that the container runs", n)
	}
	if inspect(t, r, "u1").Containers[0].State() != backend.Exited {
		t.Error("the hint came before the fact")
	}
}

func TestOOMEventForgetsDetails(t *testing.T) {
	w := newWorld(t)
	r, _ := w.connect(t)
	runPod(t, r, testPod("u1"), "main")
	hints := follow(t, w, r)
	id, _ := w.fake.Container("main")
	w.fake.Exit(id, 1, "Error")
	inspect(t, r, "u1")
	if r.details.container(id) == nil {
		t.Fatal("details were not kept")
	}
	w.fake.Emit("/tasks/oom", id, "")
	wantHint(t, hints, "u1")
	if r.details.container(id) != nil {
		t.Error("details were kept")
	}
}

func TestEventsEndWithTheStream(t *testing.T) {
	fake := fakecri.New(testImage)
	socket := t.TempDir() + "/cri.sock"
	stop, err := fake.Serve(socket)
	must(t, err)
	w := &world{fake: fake, access: here(), cfg: Config{Endpoint: "unix://" + socket, NodeIdentity: "n"}}
	r, _ := w.connect(t)
	ended := make(chan error, 1)
	go func() { ended <- r.events.Run(t.Context(), make(chan types.UID)) }()
	eventually(t, "the stream is open", func() bool { return fake.Subscribers() == 1 })
	stop()
	wantClass(t, <-ended, backend.ErrUnavailable)
}
