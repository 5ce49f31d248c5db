package events

import (
	"context"
	"fmt"

	eventsapi "github.com/containerd/containerd/api/services/events/v1"
	containerdtypes "github.com/containerd/containerd/api/types"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// ContainerdNamespace is where containerd's CRI plugin keeps its objects.
	ContainerdNamespace = "k8s.io"
	// exitWaits bounds the exits waited for at once.
	exitWaits = 32
)

// containerdEvents sends hints from containerd's own events of the last stages
// of every change: a task started, ended or out of memory, a container gone. What is
// made is known from the call that made it, or else from a listing.
func (e *Follower) containerdEvents(ctx context.Context, hints chan<- types.UID) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(1 + exitWaits)
	stream, err := eventsapi.NewEventsClient(e.from.Transport).Subscribe(ctx, &eventsapi.SubscribeRequest{
		Filters: []string{`namespace==` + ContainerdNamespace + `,topic~="^/(tasks/(start|exit|oom)|containers/delete)$"`},
	})
	if err != nil {
		return err
	}
	g.Go(func() error {
		for {
			envelope, err := stream.Recv()
			if err != nil {
				return e.from.Transport.Explain(err)
			}
			if err := e.handle(ctx, g, envelope, hints); err != nil {
				return err
			}
		}
	})
	return g.Wait()
}

func (e *Follower) handle(
	ctx context.Context, g *errgroup.Group, envelope *containerdtypes.Envelope, hints chan<- types.UID,
) error {
	id, exit, err := decode(envelope)
	if err != nil || id == "" {
		return err
	}
	if _, known := e.from.Known.Owner(id); !known && envelope.GetTopic() == "/tasks/start" {
		return nil // a sandbox whose call has not returned, or somebody else's
	}
	uid, err := e.podOf(ctx, id)
	if err != nil || uid == "" {
		return err
	}
	if envelope.GetTopic() == "/tasks/oom" {
		// What was learnt of the container's end may not have known it yet.
		e.from.Known.Forget(id)
	}
	if !exit {
		return e.send(ctx, hints, uid)
	}
	g.Go(func() error {
		if err := e.awaitExit(ctx, id); err != nil {
			return err
		}
		return e.send(ctx, hints, uid)
	})
	return nil
}

// The fields of containerd's event messages (api/events) that matter here. Each
// message of the topics above has the container's id in field 1; that of an exit
// has the process's in field 2, which is the container's for its own process.
const (
	fieldContainer = 1
	fieldProcess   = 2
)

// decode reads the id of the container or sandbox that an event is about, and
// whether its process has ended. There is none in events about a process that
// was run beside it.
func decode(envelope *containerdtypes.Envelope) (id string, exit bool, err error) {
	fields, err := stringFields(envelope.GetEvent().GetValue())
	if err != nil {
		return "", false, fmt.Errorf("decode containerd event %s: %w", envelope.GetTopic(), err)
	}
	id, exit = fields[fieldContainer], envelope.GetTopic() == "/tasks/exit"
	if exit && fields[fieldProcess] != id {
		return "", false, nil
	}
	return id, exit, nil
}

// stringFields reads the length-delimited fields of a message. The generated
// types would do it too, at the price of registering all of containerd's.
func stringFields(message []byte) (map[protowire.Number]string, error) {
	fields := map[protowire.Number]string{}
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		message = message[n:]
		if kind == protowire.BytesType {
			value, n := protowire.ConsumeBytes(message)
			if n >= 0 {
				fields[number] = string(value)
			}
		}
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return nil, protowire.ParseError(n)
		}
		message = message[n:]
	}
	return fields, nil
}
