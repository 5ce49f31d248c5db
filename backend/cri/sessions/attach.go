package sessions

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/streaming"
)

// Attach joins streams to the main process of a container.
func (o *Opener) Attach(ctx context.Context, ref backend.ContainerRef, spec backend.AttachSpec) error {
	op := "attach to container " + ref.Name
	id, err := o.idOf(ctx, ref)
	if err != nil {
		return o.sessionFailed(ctx, op, "", err)
	}
	stdin, stdout, stderr := streaming.Needs(spec)
	reply, err := o.Runtime.Attach(ctx, &runtimeapi.AttachRequest{
		ContainerId: id, Tty: spec.TTY, Stdin: stdin, Stdout: stdout, Stderr: stderr,
	})
	if err != nil {
		return o.sessionFailed(ctx, op, id, err)
	}
	if err := streaming.Attach(ctx, o.Streams, reply.GetUrl(), spec); err != nil {
		return o.sessionFailed(ctx, op, id, err)
	}
	return nil
}
