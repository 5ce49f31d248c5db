package cri

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/streaming"
)

// attacher implements [backend.Attacher] through the runtime's streaming server.
type attacher struct{ *remote }

// Attach joins streams to the main process of a container.
func (a attacher) Attach(ctx context.Context, ref backend.ContainerRef, spec backend.AttachSpec) error {
	op := "attach to container " + ref.Name
	id, err := a.idOf(ctx, ref)
	if err != nil {
		return a.sessionFailed(ctx, op, "", err)
	}
	stdin, stdout, stderr := streaming.Needs(spec)
	reply, err := a.runtime.Attach(ctx, &runtimeapi.AttachRequest{
		ContainerId: id, Tty: spec.TTY, Stdin: stdin, Stdout: stdout, Stderr: stderr,
	})
	if err != nil {
		return a.sessionFailed(ctx, op, id, err)
	}
	if err := streaming.Attach(ctx, a.streams, reply.GetUrl(), spec); err != nil {
		return a.sessionFailed(ctx, op, id, err)
	}
	return nil
}
