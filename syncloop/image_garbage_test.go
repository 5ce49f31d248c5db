package syncloop_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend/sim"
	"github.com/burstlet/burstlet/syncloop/imagegc"
)

func imaged(image string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = image }
}

// collecting starts an engine that collects images on a disk on which ten have room.
func collecting(t *testing.T, f func(t *testing.T, a *api)) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.remote = sim.New(sim.Config{
			ImageDisk: 10, ImageSize: func(string) uint64 { return 1 },
			Images: []string{"old:1", "old:2", "old:3", "old:4", "pinned:1"}, Pinned: []string{"pinned:1"},
		})
		a.gc = &imagegc.Policy{HighThresholdPercent: 85, LowThresholdPercent: 80, MinAge: 2 * time.Minute}
		a.start(a.remote.Backend())
		defer func() { a.stop() }()
		f(t, a)
	})
}

// TestImagesAreCollected: unused images go when the disk is over the threshold, those
// of pods stay, be they running, restarting or waiting.
func TestImagesAreCollected(t *testing.T) {
	collecting(t, func(t *testing.T, a *api) {
		a.create("runs", "u1", "Always", imaged("runs"), "sleep", "infinity")
		a.create("crashes", "u2", "Always", imaged("crashes"), "false")
		a.create("done", "u3", "Never", imaged("done"), "true")
		a.create("ends", "u4", "Always", imaged("ends"), "sleep", "infinity")
		a.create("waits", "u5", "Always", func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Image = "old:1"
			pod.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "init", Command: []string{"sleep", "infinity"}}}
		}, "sleep", "infinity")
		time.Sleep(time.Minute)
		if got := len(a.images()); got != 10 {
			t.Fatalf("images %q", a.images())
		}
		a.delete("ends", 0)
		time.Sleep(10 * time.Minute)
		got := a.images()
		if len(got) != 8 {
			t.Errorf("images %q, want 8 of them", got)
		}
		for _, image := range []string{
			"runs:latest", "crashes:latest", "done:latest", "ends:latest", "old:1", "init:latest", "pinned:1",
		} {
			if !slices.Contains(got, image) {
				t.Errorf("%s is needed, or was used later than others, and is gone", image)
			}
		}
		if events := a.toldOfNode(); len(events) > 0 {
			t.Errorf("Events of the Node: %q", events)
		}
	})
}

// TestPullMakesRoom: a pull that finds the disk full has garbage removed at once, and
// succeeds when it is tried again.
func TestPullMakesRoom(t *testing.T) {
	collecting(t, func(t *testing.T, a *api) {
		time.Sleep(6 * time.Minute) // they are known for long
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			a.create(name, types.UID("u-"+name), "Always", imaged(name), "sleep", "infinity")
		}
		time.Sleep(30 * time.Second)
		full := 0
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			a.phase(name, corev1.PodRunning)
			if slices.ContainsFunc(
				a.told(name, "Failed"), func(e string) bool { return strings.Contains(e, "no space left on device") },
			) {
				full++
			}
		}
		if full == 0 {
			t.Error("no pull found the disk full")
		}
		if got := len(a.images()); got > 10 {
			t.Errorf("images %q", a.images())
		}
	})
}

// TestNothingToCollect: a disk that is full of what is needed is told of on the Node.
func TestNothingToCollect(t *testing.T) {
	collecting(t, func(t *testing.T, a *api) {
		for _, image := range []string{"old:1", "old:2", "old:3", "old:4", "a", "b", "c", "d"} {
			name := strings.ReplaceAll(image, ":", "-")
			a.create(name, types.UID("u-"+name), "Always", imaged(image), "sleep", "infinity")
		}
		time.Sleep(6 * time.Minute)
		if events := a.toldOfNode(); len(events) == 0 || !strings.HasPrefix(events[0], "Warning FreeDiskSpaceFailed ") {
			t.Errorf("Events of the Node: %q", events)
		}
		if got := len(a.images()); got != 9 {
			t.Errorf("images %q", a.images())
		}
	})
}

// TestImagesStayWithoutPolicy: an engine without one removes none.
func TestImagesStayWithoutPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.remote = sim.New(sim.Config{
			ImageDisk: 10, ImageSize: func(string) uint64 { return 5 }, Images: []string{"a:1", "b:1"},
		})
		a.start(a.remote.Backend())
		defer func() { a.stop() }()
		time.Sleep(time.Hour)
		if got := len(a.images()); got != 2 {
			t.Errorf("images %q", a.images())
		}
	})
}

func (a *api) toldOfNode() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.nodeEvents)
}

// images are the names of those that the remote has.
func (a *api) images() (names []string) {
	facts, err := a.remote.Backend().Store.List(context.Background())
	if err != nil {
		a.t.Fatal(err)
	}
	for _, f := range facts {
		names = append(names, f.Names...)
	}
	return names
}
