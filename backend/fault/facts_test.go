package fault_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/fault"
	"github.com/burstlet/burstlet/backend/sim"
)

func TestVolumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		var s fault.Script
		r := sim.New(sim.Config{})
		b := fault.Wrap(r.Backend(), &s)
		place := func(name string) error {
			return b.Files.Place(ctx, backend.VolumeSpec{Pod: spec("u").Pod, Name: name, Hash: "h"})
		}
		count := func(class string, want int) {
			t.Helper()
			facts, err := b.Files.Volumes(ctx)
			wantClass(t, err, class)
			if len(facts) != want {
				t.Errorf("%d volumes, want %d", len(facts), want)
			}
		}
		if err := errors.Join(place("a"), place("b"), place("c")); err != nil {
			t.Fatal(err)
		}
		count("", 3)
		s.Add(fault.FilesVolumes, 1, fault.Fault{Partial: true})
		count("Unavailable", 2)
		s.Add(fault.FilesPlace, 1, fault.Fault{Late: time.Minute})
		wantClass(t, place("d"), "Unavailable")
		s.Add(fault.FilesVolumes, 1, fault.Fault{Stale: true})
		if err := b.Files.Clear(ctx, backend.Ref{UID: "u"}); err != nil {
			t.Fatal(err)
		}
		count("", 3)
		count("", 0)
		s.Wait()
		count("", 1) // the late one

		s.Add(fault.FilesPlace, 1, fault.Fault{Late: time.Minute})
		wantClass(t, place("e"), "Unavailable")
		if err := errors.Join(place("e"), b.Files.Clear(ctx, backend.Ref{UID: "u"})); err != nil {
			t.Fatal(err)
		}
		s.Wait()
		count("", 0) // it was settled by the second call
	})
}

// TestLateExec: a command whose reply was lost runs when nobody listens.
func TestLateExec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		var s fault.Script
		r := sim.New(sim.Config{PodUnit: true})
		b := fault.Wrap(r.Backend(), &s)
		launch := spec("u")
		launch.Containers = []backend.ContainerSpec{{
			Pod: launch.Pod, Container: corev1.Container{Name: "c", Image: "busybox"},
		}}
		if err := b.Pods.Launch(ctx, ctx, launch); err != nil {
			t.Fatal(err)
		}
		c := backend.ContainerRef{Pod: launch.Ref(), Name: "c"}
		there := func() int32 {
			code, err := b.Exec.Exec(ctx, c, backend.ExecSpec{Command: []string{"test", "-e", "/tmp/late"}})
			if err != nil {
				t.Error(err)
			}
			return code
		}
		s.Add(fault.ExecExec, 1, fault.Fault{Late: time.Minute})
		_, err := b.Exec.Exec(ctx, c, backend.ExecSpec{Command: []string{"touch", "/tmp/late"}})
		wantClass(t, err, "Unavailable")
		if there() != 1 {
			t.Error("it ran at once")
		}
		s.Wait()
		if there() != 0 {
			t.Error("it never ran")
		}
	})
}

// TestSkew: all times of facts are off by as much, and none appears.
func TestSkew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		r := sim.New(sim.Config{PodUnit: true, Files: true})
		truth, off := r.Backend(), fault.Wrap(r.Backend(), &fault.Script{Skew: time.Hour})
		launch := spec("u")
		for name, argv := range map[string]string{"done": "true", "runs": "serve"} {
			c := corev1.Container{Name: name, Image: "busybox", Command: []string{argv}}
			launch.Containers = append(launch.Containers, backend.ContainerSpec{Pod: launch.Pod, Container: c})
		}
		if err := errors.Join(
			off.Pods.Launch(ctx, ctx, launch), off.Files.Place(ctx, backend.VolumeSpec{Pod: launch.Pod, Name: "v"}),
		); err != nil {
			t.Fatal(err)
		}
		want, _ := truth.Pods.List(ctx)
		listed, _ := off.Pods.List(ctx)
		inspected, _ := off.Pods.Inspect(ctx, []types.UID{"u"})
		for _, got := range append(listed, inspected...) {
			checkSkew(t, want[0].CreatedAt, got.CreatedAt)
			checkSkew(t, want[0].StoppedAt, got.StoppedAt)
			for i, c := range got.Containers {
				checkSkew(t, want[0].Containers[i].CreatedAt, c.CreatedAt)
				checkSkew(t, want[0].Containers[i].StartedAt, c.StartedAt)
				checkSkew(t, want[0].Containers[i].FinishedAt, c.FinishedAt)
			}
		}
		volumes, _ := off.Files.Volumes(ctx)
		checkSkew(t, want[0].CreatedAt, volumes[0].PlacedAt)
	})
}

func checkSkew(t *testing.T, truth, got time.Time) {
	t.Helper()
	if truth.IsZero() != got.IsZero() || (!truth.IsZero() && got.Sub(truth) != time.Hour) {
		t.Errorf("%v became %v", truth, got)
	}
}
