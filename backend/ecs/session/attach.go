package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// attacher implements backend.Attacher as far as ECS has something to attach to: of
// a container's main process, the output that goes to CloudWatch, which keeps both
// outputs as one.
type attacher struct {
	pool *Pool
	logs backend.Logs // nil without a log group
}

// Attach copies what the container writes from now on.
func (a attacher) Attach(ctx context.Context, ref backend.ContainerRef, spec backend.AttachSpec) error {
	if err := a.attach(ctx, ref, spec); err != nil {
		return ended(ctx, "attach to container "+ref.Name, err)
	}
	return nil
}

func (a attacher) attach(ctx context.Context, ref backend.ContainerRef, spec backend.AttachSpec) error {
	from := time.Now()
	if _, err := a.pool.find(ctx, ref.Pod.UID, func(f backend.PodFacts) bool {
		return f.Live && f.Attempt == ref.Pod.Attempt && runs(f, ref)
	}); err != nil {
		return err
	}
	switch {
	case spec.Stdin != nil:
		return backend.Errorf(backend.ErrUnsupported,
			"nothing reaches the input of a container's main process on ECS: attach without stdin, or use exec")
	case a.logs == nil:
		return backend.Errorf(backend.ErrUnsupported,
			"the output of containers is kept nowhere: set backend.ecs.logGroup")
	}
	r, err := a.logs.Open(ctx, ref, backend.LogOptions{Follow: true, Since: from})
	if err != nil {
		return err
	}
	to := spec.Stdout
	if to == nil {
		to = spec.Stderr
	}
	if to == nil {
		to = io.Discard
	}
	if _, err = io.Copy(to, r); err != nil {
		err = fmt.Errorf("read its output: %w", err)
	}
	if cerr := ctx.Err(); cerr != nil {
		err = cerr
	}
	return errors.Join(err, r.Close())
}
