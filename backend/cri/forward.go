package cri

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

// forwarder implements [backend.Forwarder] through the runtime's streaming server,
// which connects inside the sandbox's network.
type forwarder struct{ *remote }

// Forward connects to a port in the newest live sandbox of a pod. The runtime tells of
// a refused connection on the connection: it shows in Read.
func (f forwarder) Forward(ctx context.Context, pod backend.Ref, port uint16) (net.Conn, error) {
	op := fmt.Sprintf("forward to port %d of pod %s", port, pod.UID)
	id := pod.ID
	if id == "" {
		var err error
		if id, err = f.liveSandbox(ctx, pod); err != nil {
			return nil, f.notForwarded(ctx, op, err)
		}
	}
	reply, err := f.runtime.PortForward(ctx, &runtimeapi.PortForwardRequest{PodSandboxId: id, Port: []int32{int32(port)}})
	if err != nil {
		return nil, f.notForwarded(ctx, op, f.whyNot(ctx, pod, id, err))
	}
	conn, err := streaming.Forward(ctx, f.streams, reply.GetUrl(), port)
	if err != nil {
		return nil, f.notForwarded(ctx, op, err)
	}
	return conn, nil
}

func (f forwarder) notForwarded(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", op, ctx.Err())
	}
	return transport.Failed(err, "%s", op)
}

// whyNot makes it NotFound when the sandbox is not alive: the runtime's answer has no
// code that says so.
func (f forwarder) whyNot(ctx context.Context, pod backend.Ref, id string, err error) error {
	if transport.Lost(err) || transport.IsNotFound(err) {
		return err
	}
	live, lookErr := f.liveSandbox(ctx, pod)
	switch {
	case errors.Is(lookErr, backend.ErrNotFound) || (lookErr == nil && live != id):
		return backend.Classed(backend.ErrNotFound, err)
	case lookErr != nil:
		return errors.Join(err, lookErr)
	}
	return err
}

// liveSandbox finds the newest live sandbox of a pod. Errors: NotFound.
func (f forwarder) liveSandbox(ctx context.Context, pod backend.Ref) (id string, err error) {
	sandboxes, err := f.listSandboxes(ctx, pod.UID)
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
