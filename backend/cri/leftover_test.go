package cri

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	"google.golang.org/grpc/metadata"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/events"
	"github.com/burstlet/burstlet/test/kit/lane"
	testimages "github.com/burstlet/burstlet/test/parts/images"
)

// callersGoAway ends the calls that start containers at many moments, as
// the death of the process does. Whatever the runtime makes of it (containerd
// 1.6 calls about one in a hundred exited while it runs), a next attempt never
// runs beside it, each pod can be removed, and nothing runs on.
func callersGoAway(t *testing.T, w *realWorld) {
	// The moments are spread over the same span, however many they are; half of them
	// go on.
	count := lane.Pick(10, 10, 40)
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			for i := range count {
				after := 25*time.Millisecond + time.Duration(i)*200*time.Millisecond/time.Duration(count)
				w.goAway(t, fmt.Sprintf("away-%d-%d", g, i), after, i%2 == 0)
			}
		})
	}
	wg.Wait()
}

// goAway starts one pod's container in a call that ends after a while.
func (w *realWorld) goAway(t *testing.T, name string, after time.Duration, goOn bool) {
	pod := testPod(name)
	pod.Name = name
	c := &pod.Spec.Containers[0]
	c.Image, c.Command = testimages.BusyboxRef, []string{"sh", "-c", "sleep 1000"}
	spec := launchSpec(pod, 0)
	if err := (pods{w.remote}).Launch(t.Context(), t.Context(), spec); err != nil {
		t.Error(err)
		return
	}
	start := backend.ContainerSpec{Pod: pod, Container: *c, Hash: "h"}
	ctx, cancel := context.WithTimeout(t.Context(), after)
	err := containers{w.remote}.Start(ctx, spec.Ref(), start)
	cancel()
	if err != nil && goOn {
		w.goOn(t, spec.Ref(), start)
	}
	ids := w.containersOf(t, spec.Ref())
	w.remove(t, spec.Ref())
	if n := w.tasksOf(t, ids); n != 0 {
		t.Errorf("pod %s: %d tasks run on after it was removed", name, n)
	}
}

// goOn starts the container as the engine does, with the attempt that the facts
// ask for, until it runs: once.
func (w *realWorld) goOn(t *testing.T, ref backend.Ref, start backend.ContainerSpec) {
	var err error
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		running := 0
		for _, f := range inspect(t, w.remote, ref.UID).Containers {
			switch f.State() {
			case backend.Exited:
				start.Attempt = max(start.Attempt, f.Attempt+1)
			case backend.Running:
				running++
			case backend.Waiting:
			}
		}
		if running == 0 {
			err = containers{w.remote}.Start(t.Context(), ref, start)
			continue
		}
		if n := w.tasksOf(t, w.containersOf(t, ref)); n != running || running != 1 {
			t.Errorf("pod %s: %d containers run, and %d tasks", ref.UID, running, n)
		}
		return
	}
	t.Errorf("pod %s does not run: %v", ref.UID, err)
}

// remove removes a pod as the engine does: until nothing is left.
func (w *realWorld) remove(t *testing.T, ref backend.Ref) {
	var err error
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = (pods{w.remote}).Remove(t.Context(), ref); errors.Is(err, backend.ErrNotFound) {
			return
		}
	}
	t.Errorf("pod %s is not gone: %v", ref.UID, err)
}

func (w *realWorld) containersOf(t *testing.T, ref backend.Ref) []string {
	list, err := w.listContainers(t.Context(), w.convert.Selector(ref.UID))
	if err != nil {
		t.Error(err)
	}
	var ids []string
	for _, c := range list {
		if c.GetState() != runtimeapi.ContainerState_CONTAINER_UNKNOWN {
			ids = append(ids, c.GetId())
		}
	}
	return ids
}

// tasksOf counts what containerd itself runs of containers.
func (w *realWorld) tasksOf(t *testing.T, ids []string) int {
	ctx := metadata.AppendToOutgoingContext(t.Context(), "containerd-namespace", events.ContainerdNamespace)
	list, err := tasksapi.NewTasksClient(w.transport).List(ctx, &tasksapi.ListTasksRequest{})
	if err != nil {
		t.Error(err)
		return 0
	}
	n := 0
	for _, task := range list.GetTasks() {
		if slices.Contains(ids, task.GetID()) {
			n++
		}
	}
	return n
}
