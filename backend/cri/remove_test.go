package cri

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/stopper"
)

// TestRemoveLeavesNothingOfAFailedLaunch: what was made for a sandbox that never was.
func TestRemoveLeavesNothingOfAFailedLaunch(t *testing.T) {
	w := newWorld(t, func(s *fakecri.Server) {
		s.Before = failOnce("RunPodSandbox", errors.New("failed to setup network: no address left"))
	})
	r, _ := w.connect(t)
	spec := launchSpec(testPod("u1"), 0)
	if err := (pods{r}).Launch(t.Context(), t.Context(), spec); err == nil {
		t.Fatal("it was launched")
	}
	logDir := filepath.Join(w.cfg.PodLogsDir, "ns_name-u1_u1")
	wantThere(t, logDir, true)
	wantClass(t, pods{r}.Remove(t.Context(), spec.Ref()), backend.ErrNotFound)
	wantThere(t, logDir, false)
	cgroups := w.host.(*withoutCgroups)
	if len(cgroups.asked) != 2 || cgroups.asked[1].Parent != cgroups.asked[0].Parent {
		t.Errorf("cgroups made and removed: %+v", cgroups.asked)
	}
	wantClass(t, pods{r}.Remove(t.Context(), spec.Ref()), backend.ErrNotFound)
	if len(cgroups.asked) != 2 {
		t.Errorf("a cgroup that nobody has is removed: %+v", cgroups.asked)
	}
}

// unreachableCgroups is a host that is cut off when a cgroup is to be removed.
type unreachableCgroups struct{ *withoutCgroups }

func (h unreachableCgroups) Discard(ctx context.Context, d host.Discard) (host.Discarded, error) {
	if d.Cgroup != nil {
		return host.Discarded{}, backend.ErrUnavailable
	}
	return h.withoutCgroups.Discard(ctx, d)
}

// TestRemoveIsNotDoneWhileTheHostIsAway: the logs go last, with the cgroup of which
// they tell, or nobody would know of it.
func TestRemoveIsNotDoneWhileTheHostIsAway(t *testing.T) {
	w := newWorld(t)
	reachable := w.host.(*withoutCgroups)
	w.host = unreachableCgroups{reachable}
	r, _ := w.connect(t)
	ref := runPod(t, r, testPod("u1"), "main")
	logDir := filepath.Join(w.cfg.PodLogsDir, "ns_name-u1_u1")
	wantClass(t, pods{r}.Remove(t.Context(), ref), backend.ErrUnavailable)
	wantClass(t, pods{r}.Remove(t.Context(), ref), backend.ErrUnavailable)
	wantThere(t, logDir, true)
	r.host = reachable
	asked := len(reachable.asked)
	wantClass(t, pods{r}.Remove(t.Context(), ref), backend.ErrNotFound)
	wantThere(t, logDir, false)
	if len(reachable.asked) != asked+1 {
		t.Errorf("cgroups asked for: %+v", reachable.asked)
	}
	if n := len(w.fake.Sandboxes()); n != 0 {
		t.Errorf("%d sandboxes are left", n)
	}
}

// TestRemoveTakesWhatTheRuntimeLeftOfTheDead: of an attempt that another one followed,
// and of a container, with the cgroup's name as the sandbox was given it. What runs is
// none of it.
func TestRemoveTakesWhatTheRuntimeLeftOfTheDead(t *testing.T) {
	w := newWorld(t)
	r, _ := w.connect(t)
	cgroups := w.host.(*withoutCgroups)
	wantLeft := func(ids ...string) {
		t.Helper()
		pod := cgroups.asked[0]
		want := []host.Leftovers{{Cgroup: host.Cgroup{Parent: pod.Parent, Systemd: pod.Systemd}, IDs: ids}}
		if diff := cmp.Diff(want, cgroups.left); diff != "" {
			t.Error(diff)
		}
		cgroups.left = nil
	}
	pod := testPod("u1")
	first := runPod(t, r, pod, "main")
	id := inspect(t, r, first.UID).Containers[0].ID
	w.fake.Exit(id, 1, "Error")
	must(t, containers{r}.Start(t.Context(), first, containerSpec(pod, "main", 1)))
	must(t, containers{r}.Remove(t.Context(), backend.ContainerRef{Pod: first, Name: "main"}))
	wantLeft(id)

	sandbox := slices.Collect(maps.Keys(w.fake.Sandboxes()))[0]
	id, _ = w.fake.Container("main")
	w.fake.Kill(sandbox)
	must(t, pods{r}.Launch(t.Context(), t.Context(), launchSpec(pod, 1)))
	must(t, pods{r}.Remove(t.Context(), first))
	wantLeft(sandbox, id)

	must(t, pods{r}.Remove(t.Context(), launchSpec(pod, 1).Ref()))
	if last := cgroups.last(); len(cgroups.left) > 0 || last.Parent != cgroups.asked[0].Parent {
		t.Errorf("with the last attempt %+v of %v goes, want the whole cgroup", cgroups.left, last)
	}
}

// TestEachStopOfASandboxCounts: it runs the network's plugins, and RemovePodSandbox
// does so by itself.
func TestEachStopOfASandboxCounts(t *testing.T) {
	for name, tt := range map[string]struct {
		until func(f backend.PodFacts) bool
		stops int
	}{
		"removed when its containers have ended": {
			func(f backend.PodFacts) bool { return f.Containers[0].State() == backend.Exited }, 0,
		},
		"removed when nobody had for a while": {func(f backend.PodFacts) bool { return !f.Live }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			stops := 0
			w := newWorld(t, func(s *fakecri.Server) {
				s.Before = func(_ context.Context, method string, _ any) error {
					mu.Lock()
					defer mu.Unlock()
					if method == "StopPodSandbox" {
						stops++
					}
					return nil
				}
			})
			r, _ := w.connect(t)
			ref := runPod(t, r, testPod("u1"), "main")
			must(t, pods{r}.Stop(t.Context(), ref, 0))
			eventually(t, "it has stopped", func() bool { return tt.until(inspect(t, r, ref.UID)) })
			ended := inspect(t, r, ref.UID).Containers[0].FinishedAt
			must(t, pods{r}.Remove(t.Context(), ref))
			late := time.Since(ended) >= stopper.RemovalFollows // on a busy machine
			wantClass(t, pods{r}.Remove(t.Context(), ref), backend.ErrNotFound)
			mu.Lock()
			defer mu.Unlock()
			if stops != tt.stops && (!late || stops != 1) {
				t.Errorf("its sandbox was stopped %d times, want %d", stops, tt.stops)
			}
		})
	}
}
