package events

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/features"
	"github.com/burstlet/burstlet/backend/cri/transport"
	"github.com/burstlet/burstlet/backend/pause"
)

// Known is what is known of this node's sandboxes and containers, by their ids.
type Known interface {
	// Owner returns the pod of an id; known is also true of what is not ours, whose UID is
	// empty.
	Owner(id string) (uid types.UID, known bool)
	// Own remembers the pod of an id, Disown that it is not ours.
	Own(id string, uid types.UID)
	Disown(id string)
	// Forget drops what is known of a container, to be asked anew.
	Forget(id string)
	// Notify wakes those who await a hint about a pod.
	Notify(uid types.UID)
}

// Sources are what events are made of.
type Sources struct {
	// Node is the identity whose pods are ours.
	Node      string
	Runtime   runtimeapi.RuntimeServiceClient
	Transport *transport.Transport
	Known     Known
	// Status is that of a container now; nil without an error: not there.
	Status func(ctx context.Context, id string) (*runtimeapi.ContainerStatus, error)
}

// Follower implements [backend.Events].
type Follower struct{ from Sources }

// New follows the events of one runtime.
func New(from Sources) *Follower { return &Follower{from} }

// criEventsSince is the containerd whose stream of CRI's events is everybody's. That of
// 1.7 gives each event to one of those who follow it, be that a stream whose client has
// gone (containerd pull request 9661, which 1.7 never got); 1.6 has none.
const criEventsSince = "2.0"

// Run sends hints from CRI's own event stream, or where the runtime has none for
// everybody from containerd's event service on the same socket.
func (e *Follower) Run(ctx context.Context, hints chan<- types.UID) error {
	err := e.follow(ctx, hints)
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	if errors.Is(err, io.EOF) {
		return backend.Errorf(backend.ErrUnavailable, "follow events: the runtime ended the stream")
	}
	return transport.Failed(err, "follow events")
}

func (e *Follower) follow(ctx context.Context, hints chan<- types.UID) error {
	v, err := e.from.Runtime.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		return err
	}
	if v.GetRuntimeName() == "containerd" && !features.AtLeast(v.GetRuntimeVersion(), criEventsSince) {
		return e.containerdEvents(ctx, hints)
	}
	err = e.criEvents(ctx, hints)
	if status.Code(err) == codes.Unimplemented {
		err = e.containerdEvents(ctx, hints)
	}
	return err
}

func (e *Follower) criEvents(ctx context.Context, hints chan<- types.UID) error {
	stream, err := e.from.Runtime.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		return err
	}
	for {
		event, err := stream.Recv()
		if err != nil {
			return e.from.Transport.Explain(err)
		}
		uid, err := e.eventPod(ctx, event)
		if err != nil {
			return err
		}
		if err := e.send(ctx, hints, uid); err != nil {
			return err
		}
	}
}

// eventPod is the pod that an event is about, empty if it is not ours.
func (e *Follower) eventPod(ctx context.Context, event *runtimeapi.ContainerEventResponse) (types.UID, error) {
	if s := event.GetPodSandboxStatus(); s != nil {
		if s.GetLabels()[convert.LabelNode] != e.from.Node {
			return "", nil
		}
		return types.UID(s.GetMetadata().GetUid()), nil
	}
	return e.podOf(ctx, event.GetContainerId())
}

// podOf is the pod that a sandbox or container belongs to, empty if it is not
// ours or gone. One that is not known is looked up once.
func (e *Follower) podOf(ctx context.Context, id string) (types.UID, error) {
	if uid, known := e.from.Known.Owner(id); known {
		return uid, nil
	}
	labels, err := e.labelsOf(ctx, id)
	if err != nil || labels == nil {
		return "", err
	}
	if labels[convert.LabelNode] != e.from.Node {
		e.from.Known.Disown(id)
		return "", nil
	}
	uid := types.UID(labels[convert.LabelPodUID])
	e.from.Known.Own(id, uid)
	return uid, nil
}

// labelsOf is nil without an error when there is no such id.
func (e *Follower) labelsOf(ctx context.Context, id string) (map[string]string, error) {
	c, err := e.from.Runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	if err == nil {
		return c.GetStatus().GetLabels(), nil
	}
	if !transport.IsNotFound(err) {
		return nil, fmt.Errorf("look at container %s: %w", id, err)
	}
	s, err := e.from.Runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id})
	if err == nil {
		return s.GetStatus().GetLabels(), nil
	}
	if !transport.IsNotFound(err) {
		return nil, fmt.Errorf("look at sandbox %s: %w", id, err)
	}
	return nil, nil
}

// send passes a hint on, unless there is no pod to inspect.
func (e *Follower) send(ctx context.Context, hints chan<- types.UID, uid types.UID) error {
	if uid == "" {
		return nil
	}
	e.from.Known.Notify(uid)
	select {
	case hints <- uid:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

const (
	// exitPoll, which doubles each time up to exitPollMax, and exitPolls bound the wait
	// for CRI to know of an exit that containerd has reported: milliseconds, as long as
	// the host is not busy, and one that is must not be made busier.
	exitPoll    = 10 * time.Millisecond
	exitPollMax = 160 * time.Millisecond
	exitPolls   = 10
)

// awaitExit waits until CRI says that a container or sandbox does not run. Its
// event comes first: a listing at once would still show it running, and nothing
// would look again before the next poll.
func (e *Follower) awaitExit(ctx context.Context, id string) error {
	wait := exitPoll
	for range exitPolls {
		running, err := e.stillRuns(ctx, id)
		if err != nil || !running {
			return err
		}
		if err := pause.For(ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, exitPollMax)
	}
	return nil
}

func (e *Follower) stillRuns(ctx context.Context, id string) (bool, error) {
	s, err := e.from.Status(ctx, id)
	if err != nil {
		return false, err
	}
	if s != nil {
		return s.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING, nil
	}
	reply, err := e.from.Runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id})
	if transport.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, transport.Failed(err, "look at sandbox %s", id)
	}
	return reply.GetStatus().GetState() == runtimeapi.PodSandboxState_SANDBOX_READY, nil
}
