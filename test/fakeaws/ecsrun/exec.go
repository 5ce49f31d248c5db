package ecsrun

import (
	"context"
	"errors"
	"math"
	"time"

	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Exec runs a command without a terminal.
func (c *container) Exec(ctx context.Context, argv []string, timeout time.Duration) (int, error) {
	reply, err := c.t.r.runtime.ExecSync(ctx, &runtimeapi.ExecSyncRequest{
		ContainerId: c.id, Cmd: argv, Timeout: int64(math.Ceil(timeout.Seconds())),
	})
	if err != nil {
		return 0, errors.New(status.Convert(err).Message())
	}
	return int(reply.GetExitCode()), nil
}
