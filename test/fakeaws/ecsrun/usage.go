package ecsrun

import (
	"context"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/fakeaws/ecs"
)

// Usage asks the runtime. Where that does not know of a sandbox's network, as
// before containerd 1.7, none is shown.
func (c *container) Usage(ctx context.Context) (ecs.Usage, error) {
	reply, err := c.t.r.runtime.ContainerStats(ctx, &runtimeapi.ContainerStatsRequest{ContainerId: c.id})
	if err != nil {
		return ecs.Usage{}, fmt.Errorf("get use of container: %w", err)
	}
	s := reply.GetStats()
	u := ecs.Usage{
		At:              time.Unix(0, s.GetCpu().GetTimestamp()),
		CPU:             time.Duration(s.GetCpu().GetUsageCoreNanoSeconds().GetValue()),
		WorkingSetBytes: s.GetMemory().GetWorkingSetBytes().GetValue(),
		RootBytes:       s.GetWritableLayer().GetUsedBytes().GetValue(),
	}
	u.MemoryBytes = max(u.WorkingSetBytes, s.GetMemory().GetUsageBytes().GetValue())
	pod, err := c.t.r.runtime.PodSandboxStats(ctx, &runtimeapi.PodSandboxStatsRequest{PodSandboxId: c.t.sandbox})
	if err != nil {
		return u, nil //nolint:nilerr // there is no network in it then
	}
	if n := pod.GetStats().GetLinux().GetNetwork().GetDefaultInterface(); n.GetName() != "" {
		u.Interface = n.GetName()
		u.RxBytes, u.RxErrors = n.GetRxBytes().GetValue(), n.GetRxErrors().GetValue()
		u.TxBytes, u.TxErrors = n.GetTxBytes().GetValue(), n.GetTxErrors().GetValue()
	}
	return u, nil
}
