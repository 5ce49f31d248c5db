package sessions

import (
	"context"
	"errors"
	"fmt"
	"net"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/streaming"
	"github.com/burstlet/burstlet/backend/cri/transport"
)

// Forward connects to a port in the newest live sandbox of a pod: the runtime's streaming
// server connects inside the sandbox's network. It tells of a refused connection on the
// connection: that shows in Read.
func (o *Opener) Forward(ctx context.Context, pod backend.Ref, port uint16) (net.Conn, error) {
	op := fmt.Sprintf("forward to port %d of pod %s", port, pod.UID)
	id := pod.ID
	if id == "" {
		var err error
		if id, err = o.liveSandbox(ctx, pod); err != nil {
			return nil, o.notForwarded(ctx, op, err)
		}
	}
	reply, err := o.Runtime.PortForward(ctx, &runtimeapi.PortForwardRequest{PodSandboxId: id, Port: []int32{int32(port)}})
	if err != nil {
		return nil, o.notForwarded(ctx, op, o.whyNot(ctx, pod, id, err))
	}
	conn, err := streaming.Forward(ctx, o.Streams, reply.GetUrl(), port)
	if err != nil {
		return nil, o.notForwarded(ctx, op, err)
	}
	return conn, nil
}

func (o *Opener) notForwarded(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", op, ctx.Err())
	}
	return transport.Failed(err, "%s", op)
}

// whyNot makes it NotFound when the sandbox is not alive: the runtime's answer has no
// code that says so.
func (o *Opener) whyNot(ctx context.Context, pod backend.Ref, id string, err error) error {
	if transport.Lost(err) || transport.IsNotFound(err) {
		return err
	}
	live, lookErr := o.liveSandbox(ctx, pod)
	switch {
	case errors.Is(lookErr, backend.ErrNotFound) || (lookErr == nil && live != id):
		return backend.Classed(backend.ErrNotFound, err)
	case lookErr != nil:
		return errors.Join(err, lookErr)
	}
	return err
}

// liveSandbox finds the newest live sandbox of a pod. Errors: NotFound.
func (o *Opener) liveSandbox(ctx context.Context, pod backend.Ref) (id string, err error) {
	sandboxes, err := o.Sandboxes(ctx, pod.UID)
	if err != nil {
		return "", err
	}
	newest := -1
	for _, s := range sandboxes {
		if ref := convert.SandboxRef(s); s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY && ref.Attempt > newest {
			newest, id = ref.Attempt, s.GetId()
		}
	}
	if id == "" {
		return "", backend.Errorf(backend.ErrNotFound, "the pod has no live sandbox")
	}
	return id, nil
}
