package sim_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
)

func bounded(cpu, memory string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: amounts(cpu, memory), Limits: amounts(cpu, memory)}
}

// TestResize: the program goes on to ask for what it did, its new limits hold from
// now on, and what it used before stays used; facts read before do not change.
func TestResize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		remote := sim.New(sim.Config{Record: true})
		b := remote.Backend()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "p"}}
		container := corev1.Container{
			Name: "a", Image: "busybox", Command: []string{"sleep", "infinity"}, Resources: bounded("2", "64Mi"),
		}
		spec := backend.ContainerSpec{Pod: pod, Container: container}
		launch := backend.LaunchSpec{Pod: pod}
		if _, err := b.Images.Pull(t.Context(), "busybox", nil); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(
			b.Pods.Launch(t.Context(), t.Context(), launch), b.Containers.Start(t.Context(), launch.Ref(), spec),
		); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		before := remote.Facts()[0].Containers[0]
		ref := before.Ref(launch.Ref())

		spec.Container.Resources = bounded("500m", "32Mi") // it uses 1 cpu and 32Mi
		err := b.Resize.Resize(t.Context(), ref, spec)
		if backend.Class(err) != "Invalid" ||
			!strings.Contains(err.Error(), "memory limit (33554432) below current usage (33554432)") {
			t.Errorf("a memory limit of what is used: %v", err)
		}
		spec.Container.Resources = bounded("500m", "48Mi")
		if err := b.Resize.Resize(t.Context(), ref, spec); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		facts, err := b.Stats.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		u := facts.Pods[0].Containers[0].Usage
		if got := *u.CPUCoreNanoSeconds; got != 15e9 {
			t.Errorf("used %d ns, want 10 s of 1 cpu and 10 s of a half", got)
		}
		if *u.CPUNanoCores != 5e8 || *u.MemoryWorkingSet != 32<<20 {
			t.Errorf("uses %d nanocores, %d bytes", *u.CPUNanoCores, *u.MemoryWorkingSet)
		}
		now := remote.Facts()[0].Containers[0]
		if got := now.Resources.Limits.Cpu().String(); got != "500m" {
			t.Errorf("held to %s", got)
		}
		if got := before.Resources.Limits.Cpu().String(); got != "2" {
			t.Errorf("facts of before say %s now", got)
		}
		if history := remote.History(); history[len(history)-1].Kind != sim.Resized {
			t.Errorf("history %+v", history)
		}
	})
}
