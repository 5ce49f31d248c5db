package cri

import (
	"context"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/host/helper"
	"github.com/burstlet/burstlet/backend/cri/host/helper/binary"
	"github.com/burstlet/burstlet/test/kit/background"
	"github.com/burstlet/burstlet/test/kit/need"
)

// holds keeps calls of a method in their middle, where they say begun, until they may go on
// or are given up.
func holds(method string, begun chan<- struct{}, goOn <-chan struct{}) func(context.Context, string) {
	return func(ctx context.Context, called string) {
		if called != method {
			return
		}
		begun <- struct{}{}
		select {
		case <-goOn:
		case <-ctx.Done():
		}
	}
}

// The process dies while the runtime starts a container, whose process has begun: it
// runs once, and the next process of burstlet finds it running.
func TestAStartThatReachedTheHostIsFinished(t *testing.T) {
	begun, goOn := make(chan struct{}), make(chan struct{})
	w := newWorld(t, func(s *fakecri.Server) {
		s.Amid = holds("StartContainer", begun, goOn)
	})
	pod := testPod("u1")
	first, stop := w.connect(t)
	ref := runPod(t, first, pod)
	ctx, die := context.WithCancel(t.Context())
	started := make(chan error, 1)
	go func() { started <- containers{first}.Start(ctx, ref, containerSpec(pod, "main", 0)) }()
	<-begun
	die()
	stop()
	wantClass(t, <-started, backend.ErrUnavailable)

	second, _ := w.connect(t)
	again := make(chan error, 1)
	go func() { again <- containers{second}.Start(t.Context(), ref, containerSpec(pod, "main", 0)) }()
	close(goOn)
	must(t, <-again)
	if c := inspect(t, second, "u1").Containers; len(c) != 1 || c[0].State() != backend.Running {
		t.Errorf("containers %+v, want one that runs", c)
	}
	if runs := w.fake.Runs("main"); runs != 1 {
		t.Errorf("it was started %d times, want once", runs)
	}
}

// A container that only KILL ends is killed at the end of its grace, though whoever asked for
// its stop, or the link to the host, goes within it.
func TestAStopThatReachedTheHostIsFinished(t *testing.T) {
	for name, overLink := range map[string]bool{"burstlet ends": false, "the link is cut": true} {
		t.Run(name, func(t *testing.T) {
			begun, goOn := make(chan struct{}), make(chan struct{})
			w := newWorld(t, func(s *fakecri.Server) {
				s.IgnoresTERM["main"] = true
				s.Amid = holds("StopContainer", begun, goOn)
			})
			onHost := w.access
			cut := func() {}
			if overLink {
				w.host, cut = linked(t, w.host)
			}
			first, stop := w.connect(t)
			ref := runPod(t, first, testPod("u1"), "main")
			id, _ := w.fake.Container("main")
			must(t, pods{first}.Stop(t.Context(), ref, time.Second))
			<-begun // TERM was sent
			if cut(); !overLink {
				stop()
			}
			close(goOn)

			w.access = onHost
			second, _ := w.connect(t)
			eventually(t, "main ends", func() bool { return containerState(t, second, "main") == backend.Exited })
			if c := inspect(t, second, "u1").Containers[0]; c.ExitCode != 137 {
				t.Errorf("it ended with %d, want 137", c.ExitCode)
			}
			if stops := w.fake.Stops(id); !slices.Equal(stops, []int64{1}) {
				t.Errorf("stop calls %v, want the one that was under way", stops)
			}
		})
	}
}

// linked is a host at the other end of a link, which cut cuts.
func linked(t *testing.T, h host.Host) (far host.Host, cut func()) {
	t.Helper()
	near, remote := net.Pipe()
	client := helper.NewClient(near)
	background.Run(t, func(ctx context.Context) error { return helper.Serve(ctx, remote, h) })
	cut = sync.OnceFunc(func() {
		if err := client.Close(); err != nil {
			t.Errorf("cut the link: %v", err)
		}
	})
	t.Cleanup(cut)
	return client, cut
}

// Every call that changes something is made by the host, and none else; its errors have
// the runtime's code and words.
func TestCallsThatChangeAreMadeOnTheHost(t *testing.T) {
	var mu sync.Mutex
	direct := map[string]bool{}
	w := newWorld(t, func(s *fakecri.Server) {
		s.Before = func(ctx context.Context, method string, _ any) error {
			mu.Lock()
			defer mu.Unlock()
			direct[method] = fakecri.ByGRPC(ctx)
			return nil
		}
	})
	r, _ := w.connect(t)
	pod := testPod("u1")
	ref := runPod(t, r, pod, "main")
	must(t, pods{r}.Stop(t.Context(), ref, 0))
	eventually(t, "the pod is removed", func() bool { return pods{r}.Remove(t.Context(), ref) == nil })
	_, err := r.runtime.StartContainer(t.Context(), &runtimeapi.StartContainerRequest{ContainerId: "none"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("the start of what is not there: %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, method := range []string{
		"RunPodSandbox", "CreateContainer", "StartContainer", "StopContainer", "RemovePodSandbox",
	} {
		if through, made := direct[method]; !made || through {
			t.Errorf("%s: made %t, past the host %t", method, made, through)
		}
	}
	if through, made := direct["ListPodSandbox"]; !made || !through {
		t.Errorf("ListPodSandbox: made %t, past the host %t", made, through)
	}
}

// On this machine a process of its own calls the runtime, which finishes what is under
// way when burstlet ends, and is then gone.
func TestResidentFinishesCalls(t *testing.T) {
	if _, err := binary.For(runtime.GOARCH); err != nil {
		need.Missing(t, "the host helper is needed: run make test: %v", err)
	}
	begun, goOn := make(chan struct{}), make(chan struct{})
	w := newWorld(t, func(s *fakecri.Server) {
		s.Amid = holds("StartContainer", begun, goOn)
	})
	connect := func() (*remote, *residentHost, func()) {
		here := newResidentHost(w.cfg.PodsDir)
		here.Host = &withoutCgroups{Host: here.Host}
		w.access = access{host: here, control: localDialer{}, streams: localDialer{}, run: here.run, may: backend.Always}
		r, stop := w.connect(t)
		return r, here, stop
	}
	pod := testPod("u1")
	first, here, stop := connect()
	ref := runPod(t, first, pod)
	started := make(chan error, 1)
	go func() { started <- containers{first}.Start(t.Context(), ref, containerSpec(pod, "main", 0)) }()
	<-begun
	stop()
	wantClass(t, <-started, backend.ErrUnavailable)
	_, err := here.Call(t.Context(), host.Call{})
	wantClass(t, err, backend.ErrUnavailable)

	second, _, _ := connect()
	again := make(chan error, 1)
	go func() { again <- containers{second}.Start(t.Context(), ref, containerSpec(pod, "main", 0)) }()
	close(goOn)
	must(t, <-again)
	here.exits.Wait()
	if runs := w.fake.Runs("main"); runs != 1 {
		t.Errorf("it was started %d times, want once", runs)
	}
}

// A process that is gone is replaced.
func TestResidentIsStartedAgain(t *testing.T) {
	if _, err := binary.For(runtime.GOARCH); err != nil {
		need.Missing(t, "the host helper is needed: run make test: %v", err)
	}
	w := newWorld(t)
	here := newResidentHost(w.cfg.PodsDir)
	here.Host = &withoutCgroups{Host: here.Host}
	w.access = access{host: here, control: localDialer{}, streams: localDialer{}, run: here.run, may: backend.Always}
	r, _ := w.connect(t)
	must(t, pods{r}.Launch(t.Context(), t.Context(), launchSpec(testPod("u1"), 0)))
	must(t, here.client.Close())
	must(t, pods{r}.Launch(t.Context(), t.Context(), launchSpec(testPod("u2"), 0)))
}

// Without the helper burstlet makes the calls itself.
func TestResidentWithoutAProgram(t *testing.T) {
	w := newWorld(t)
	here := newResidentHost(w.cfg.PodsDir)
	here.Host = &withoutCgroups{Host: here.Host}
	here.program = func(string) ([]byte, error) { return nil, binary.ErrMissing }
	w.access = access{host: here, control: localDialer{}, streams: localDialer{}, run: here.run, may: backend.Always}
	r, _ := w.connect(t)
	must(t, pods{r}.Launch(t.Context(), t.Context(), launchSpec(testPod("u1"), 0)))
}
