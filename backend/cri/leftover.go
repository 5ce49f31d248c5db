package cri

import (
	"context"
	"errors"

	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend/cri/events"
	"github.com/burstlet/burstlet/backend/cri/transport"
)

// containerd 1.6 gives up a StartContainer whose caller goes away in the middle
// (burstlet was killed): it calls the container exited, with StartError, though
// its task was made and runs on ("failed to get task pid: context canceled").
// CRI can then neither stop nor remove it. containerd's own task service on the
// same socket can.

const sigkill = 9

// killLeftover ends what still runs of a container that CRI calls exited. It
// does nothing where nothing runs, or where the runtime is not containerd.
func (r *remote) killLeftover(ctx context.Context, id string) error {
	ctx = metadata.AppendToOutgoingContext(ctx, "containerd-namespace", events.ContainerdNamespace)
	tasks := tasksapi.NewTasksClient(r.transport)
	_, err := tasks.Kill(ctx, &tasksapi.KillRequest{ContainerID: id, Signal: sigkill, All: true})
	if nothingThere(err) {
		return nil
	}
	if err != nil && status.Code(err) != codes.FailedPrecondition { // that one is dead already
		return transport.Failed(err, "kill what is left of container %s", id)
	}
	if _, err := tasks.Wait(ctx, &tasksapi.WaitRequest{ContainerID: id}); err != nil && !nothingThere(err) {
		return transport.Failed(err, "await the end of what is left of container %s", id)
	}
	if _, err := tasks.Delete(ctx, &tasksapi.DeleteTaskRequest{ContainerID: id}); err != nil && !nothingThere(err) {
		return transport.Failed(err, "delete what is left of container %s", id)
	}
	return nil
}

func nothingThere(err error) bool {
	code := status.Code(err)
	return code == codes.NotFound || code == codes.Unimplemented
}

// killLeftovers does so for every exited container of an attempt.
func (r *remote) killLeftovers(ctx context.Context, v *view) error {
	var errs []error
	for _, c := range v.containers {
		if c.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED {
			errs = append(errs, r.killLeftover(ctx, c.GetId()))
		}
	}
	return errors.Join(errs...)
}
