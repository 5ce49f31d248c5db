package cri

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
)

// failOnce fails the first call of a method.
func failOnce(method string, err error) fakecri.Hook {
	var done atomic.Bool
	return func(_ context.Context, m string, _ any) error {
		if m == method && done.CompareAndSwap(false, true) {
			return err
		}
		return nil
	}
}

func TestLaunchAfterLostReply(t *testing.T) {
	w := newWorld(t, func(s *fakecri.Server) {
		s.After = failOnce("RunPodSandbox", status.Error(codes.Unavailable, "connection reset"))
	})
	r, stop := w.connect(t)
	spec := launchSpec(testPod("u1"), 0)
	wantClass(t, pods{r}.Launch(t.Context(), t.Context(), spec), backend.ErrUnavailable)
	first := inspect(t, r, "u1")

	stop()
	r, _ = w.connect(t) // a restarted engine repeats the call
	must(t, pods{r}.Launch(t.Context(), t.Context(), spec))
	if again := inspect(t, r, "u1"); again.ID != first.ID || !again.Live {
		t.Errorf("after the replay %+v, want the live %s", again, first.ID)
	}
	must(t, pods{r}.Launch(t.Context(), t.Context(), launchSpec(testPod("u1"), 1)))
	if n := len(w.fake.Sandboxes()); n != 2 {
		t.Errorf("%d sandboxes after the next attempt, want 2", n)
	}
}

func TestLaunchAdoptsTheDead(t *testing.T) {
	w := newWorld(t)
	r, _ := w.connect(t)
	ref := runPod(t, r, testPod("u1"))
	w.fake.Kill(inspect(t, r, "u1").ID)
	must(t, pods{r}.Launch(t.Context(), t.Context(), launchSpec(testPod("u1"), 0)))
	if f := inspect(t, r, "u1"); f.Live || f.Attempt != ref.Attempt {
		t.Errorf("a dead attempt came back: %+v", f)
	}
}

func TestLaunchRemovesWhatItHalfMade(t *testing.T) {
	w := newWorld(t, func(s *fakecri.Server) {
		s.After = failOnce("RunPodSandbox", errors.New("failed to setup network: no address left"))
	})
	r, _ := w.connect(t)
	err := pods{r}.Launch(t.Context(), t.Context(), launchSpec(testPod("u1"), 0))
	if backend.Class(err) != "Transient" {
		t.Errorf("error %v of class %s, want a transient one", err, backend.Class(err))
	}
	if n := len(w.fake.Sandboxes()); n != 0 {
		t.Errorf("%d sandboxes are left", n)
	}
	must(t, pods{r}.Launch(t.Context(), t.Context(), launchSpec(testPod("u1"), 0)))
}

func TestLaunchWaitsForAnEarlierCall(t *testing.T) {
	w := newWorld(t, func(s *fakecri.Server) {
		s.Before = failOnce("RunPodSandbox", errors.New(`failed to reserve sandbox name "n": name "n" is reserved for "id"`))
	})
	r, _ := w.connect(t)
	must(t, pods{r}.Launch(t.Context(), t.Context(), launchSpec(testPod("u1"), 0)))
	if calls := w.fake.Calls("RunPodSandbox"); calls != 2 {
		t.Errorf("%d calls, want 2", calls)
	}
}

func TestStartAfterLostReplies(t *testing.T) {
	for _, method := range []string{"CreateContainer", "StartContainer"} {
		t.Run(method, func(t *testing.T) {
			w := newWorld(t, func(s *fakecri.Server) {
				s.After = failOnce(method, status.Error(codes.Unavailable, "connection reset"))
			})
			r, stop := w.connect(t)
			pod := testPod("u1")
			ref := runPod(t, r, pod)
			spec := containerSpec(pod, "main", 0)
			if err := (containers{r}).Start(t.Context(), ref, spec); method == "CreateContainer" {
				wantClass(t, err, backend.ErrUnavailable)
			}
			stop()
			r, _ = w.connect(t)
			must(t, containers{r}.Start(t.Context(), ref, spec))
			f := inspect(t, r, "u1")
			if len(f.Containers) != 1 || f.Containers[0].State() != backend.Running {
				t.Errorf("containers %+v, want one that runs", f.Containers)
			}
		})
	}
}

func TestStartAgain(t *testing.T) {
	w := newWorld(t)
	r, _ := w.connect(t)
	pod := testPod("u1")
	ref := runPod(t, r, pod, "main")
	id, _ := w.fake.Container("main")
	w.fake.Exit(id, 3, "Error")
	must(t, containers{r}.Start(t.Context(), ref, containerSpec(pod, "main", 0)))
	if c := inspect(t, r, "u1").Containers; len(c) != 1 || c[0].ExitCode != 3 {
		t.Errorf("a container that had ended was started again: %+v", c)
	}
	changed := containerSpec(pod, "main", 0)
	changed.Hash = "h2"
	wantClass(t, containers{r}.Start(t.Context(), ref, changed), backend.ErrExists)
}

func TestStartReplacesWhatNeverStarted(t *testing.T) {
	w := newWorld(t, func(s *fakecri.Server) {
		s.Before = failOnce("StartContainer", errors.New("no such file or directory"))
	})
	r, _ := w.connect(t)
	pod := testPod("u1")
	ref := runPod(t, r, pod)
	spec := containerSpec(pod, "main", 0)
	if err := (containers{r}).Start(t.Context(), ref, spec); backend.Class(err) != "Transient" ||
		backend.IsNotStarted(err) {
		t.Fatalf("start: %v, want a transient error, of a container that is still to be started", err)
	}
	old, _ := w.fake.Container("main")
	w.fake.Kill(inspect(t, r, "u1").ID)
	must(t, pods{r}.Launch(t.Context(), t.Context(), launchSpec(pod, 1)))
	must(t, containers{r}.Start(t.Context(), launchSpec(pod, 1).Ref(), spec))
	if id, _ := w.fake.Container("main"); id == old {
		t.Error("the container of the dead sandbox is still there")
	}
}

// A start that is repeated while its lost call is still at work waits for that.
func TestStartWaitsForALostCall(t *testing.T) {
	w := newWorld(t, func(s *fakecri.Server) {
		s.Before = failOnce(
			"StartContainer",
			errors.New(`failed to set starting state for container "c": container is already in starting state`),
		)
	})
	r, _ := w.connect(t)
	ref := runPod(t, r, testPod("u1"))
	must(t, containers{r}.Start(t.Context(), ref, containerSpec(testPod("u1"), "main", 0)))
	if c := inspect(t, r, "u1").Containers; len(c) != 1 || c[0].State() != backend.Running {
		t.Errorf("%+v, want one that runs", c)
	}
}

// A start that the runtime cut off has failed, as on a kubelet: the process may have
// begun, and is not begun again as the same attempt.
func TestStartAfterACutOffStart(t *testing.T) {
	const cut = `failed to start containerd task "c": context canceled: unknown`
	var once sync.Once
	w := newWorld(t, func(s *fakecri.Server) {
		s.Before = func(_ context.Context, method string, request any) (err error) {
			if r, ok := request.(*runtimeapi.StartContainerRequest); ok {
				once.Do(func() {
					s.FailStart(r.GetContainerId(), cut)
					err = errors.New(cut)
				})
			}
			return err
		}
	})
	r, _ := w.connect(t)
	pod := testPod("u1")
	ref := runPod(t, r, pod)
	if err := (containers{r}).Start(t.Context(), ref, containerSpec(pod, "main", 0)); !backend.IsNotStarted(err) {
		t.Errorf("start: %v, want an error that says that the container has ended", err)
	}
	for _, when := range []string{"after the cut", "after the start was asked for again"} {
		c := inspect(t, r, "u1").Containers
		if len(c) != 1 || c[0].State() != backend.Exited || c[0].ExitCode != 128 || c[0].Reason != "StartError" {
			t.Errorf("%s: %+v, want one that exited with 128", when, c)
		}
		must(t, containers{r}.Start(t.Context(), ref, containerSpec(pod, "main", 0)))
	}
	if runs := w.fake.Runs("main"); runs != 0 {
		t.Errorf("it was started again %d times", runs)
	}
}

func TestStartNeedsASandbox(t *testing.T) {
	w := newWorld(t)
	r, _ := w.connect(t)
	pod := testPod("u1")
	wantClass(
		t, containers{r}.Start(t.Context(), launchSpec(pod, 0).Ref(), containerSpec(pod, "main", 0)), backend.ErrNotFound,
	)
}

func TestForeignObjectsAreNotTouched(t *testing.T) {
	w := newWorld(t)
	other := *w
	other.cfg.NodeIdentity = "node-b"
	theirs, _ := other.connect(t)
	ref := runPod(t, theirs, testPod("u1"), "main")

	r, _ := w.connect(t)
	list, err := pods{r}.List(t.Context())
	must(t, err)
	if len(list) != 0 {
		t.Errorf("another node's pods are listed: %+v", list)
	}
	c := backend.ContainerRef{Pod: ref, Name: "main"}
	wantClass(t, pods{r}.Stop(t.Context(), ref, 0), backend.ErrNotFound)
	wantClass(t, pods{r}.Remove(t.Context(), ref), backend.ErrNotFound)
	wantClass(t, containers{r}.Stop(t.Context(), c, 0), backend.ErrNotFound)
	wantClass(t, containers{r}.Remove(t.Context(), c), backend.ErrNotFound)
	if f := inspect(t, theirs, "u1"); !f.Live || f.Containers[0].State() != backend.Running {
		t.Errorf("another node's pod was touched: %+v", f)
	}
}

func TestLabelsCannotBeForged(t *testing.T) {
	w := newWorld(t)
	r, _ := w.connect(t)
	pod := testPod("u1")
	pod.Labels = map[string]string{convert.LabelNode: "node-b", convert.LabelPodUID: "u2"}
	runPod(t, r, pod)
	for _, config := range w.fake.Sandboxes() {
		if config.GetLabels()[convert.LabelNode] != "node-a" || config.GetLabels()[convert.LabelPodUID] != "u1" {
			t.Errorf("labels %v", config.GetLabels())
		}
	}
}

func TestCallsOutsideRun(t *testing.T) {
	w := newWorld(t)
	fresh, err := newRemote(w.cfg, w.access)
	must(t, err)
	ended, stop := w.connect(t)
	stop()
	for name, r := range map[string]*remote{"before": fresh, "after": ended} {
		ref := launchSpec(testPod("u1"), 0).Ref()
		_, listErr := pods{r}.List(t.Context())
		_, logErr := logs{r}.Open(t.Context(), backend.ContainerRef{Pod: ref, Name: "main"}, backend.LogOptions{})
		_, nodeErr := node{r}.Describe(t.Context())
		for call, err := range map[string]error{
			"Launch": pods{r}.Launch(t.Context(), t.Context(), launchSpec(testPod("u1"), 0)),
			"Stop":   pods{r}.Stop(t.Context(), ref, 0), "List": listErr, "Open": logErr, "Describe": nodeErr,
		} {
			if !errors.Is(err, backend.ErrUnavailable) {
				t.Errorf("%s run: %s: %v, want Unavailable", name, call, err)
			}
		}
	}
}
