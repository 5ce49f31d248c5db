package cri

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
)

func TestStopPod(t *testing.T) {
	w := newWorld(t, func(s *fakecri.Server) { s.IgnoresTERM["stubborn"] = true })
	r, _ := w.connect(t)
	ref := runPod(t, r, testPod("u1"), "main", "stubborn")
	begun := time.Now()
	must(t, pods{r}.Stop(t.Context(), ref, time.Hour))
	if took := time.Since(begun); took > 3*time.Minute {
		t.Errorf("Stop waited %v", took)
	}
	eventually(t, "main ends", func() bool { return containerState(t, r, "main") == backend.Exited })
	id, _ := w.fake.Container("stubborn")
	eventually(t, "stubborn is asked", func() bool { return len(w.fake.Stops(id)) > 0 }) // a call of its own
	if containerState(t, r, "stubborn") != backend.Running || !inspect(t, r, "u1").Live {
		t.Errorf("ended within its grace: %+v", inspect(t, r, "u1"))
	}
	must(t, pods{r}.Stop(t.Context(), ref, 0))
	eventually(t, "the sandbox ends", func() bool { return !inspect(t, r, "u1").Live })
	if c := inspect(t, r, "u1").Containers[1]; c.ExitCode != 137 {
		t.Errorf("killed container: %+v", c)
	}
	wantClass(t, pods{r}.Stop(t.Context(), ref, 0), backend.ErrNotFound)
	if stops := w.fake.Stops(id); !slices.Equal(stops, []int64{3600, 0}) {
		t.Errorf("stop calls %v", stops)
	}
}

func containerState(t *testing.T, r *remote, name string) backend.State {
	t.Helper()
	for _, c := range inspect(t, r, "u1").Containers {
		if c.Name == name {
			return c.State()
		}
	}
	t.Fatalf("no container %s", name)
	return 0
}

func TestStopFreesADeadSandbox(t *testing.T) {
	w := newWorld(t)
	r, _ := w.connect(t)
	ref := runPod(t, r, testPod("u1"))
	w.fake.Kill(inspect(t, r, "u1").ID)
	wantClass(t, pods{r}.Stop(t.Context(), ref, 0), backend.ErrNotFound)
	if n := w.fake.Calls("StopPodSandbox"); n != 1 {
		t.Errorf("%d calls to free the address, want 1", n)
	}
}

// TestStopWaitsForTheStopOfItsSandbox: a sandbox's process has died while the runtime still
// takes its network down, and a second call would find half of it.
func TestStopWaitsForTheStopOfItsSandbox(t *testing.T) {
	amid, goOn := make(chan struct{}), make(chan struct{})
	var first sync.Once
	w := newWorld(t, func(s *fakecri.Server) {
		s.Amid = func(ctx context.Context, method string) {
			if method != "StopPodSandbox" {
				return
			}
			first.Do(func() { close(amid) })
			select {
			case <-goOn:
			case <-ctx.Done():
			}
		}
	})
	r, _ := w.connect(t)
	ref := runPod(t, r, testPod("u1"), "main")
	must(t, pods{r}.Stop(t.Context(), ref, 0))
	<-amid
	w.fake.Kill(inspect(t, r, "u1").ID)
	time.AfterFunc(100*time.Millisecond, func() { close(goOn) })
	wantClass(t, pods{r}.Stop(t.Context(), ref, 0), backend.ErrNotFound)
}

func TestStopOneContainer(t *testing.T) {
	w := newWorld(t)
	r, _ := w.connect(t)
	ref := runPod(t, r, testPod("u1"), "main", "other")
	must(t, containers{r}.Stop(t.Context(), backend.ContainerRef{Pod: ref, Name: "main"}, time.Hour))
	eventually(t, "main ends", func() bool { return containerState(t, r, "main") == backend.Exited })
	if f := inspect(t, r, "u1"); !f.Live || containerState(t, r, "other") != backend.Running {
		t.Errorf("the rest did not go on: %+v", f)
	}
}
