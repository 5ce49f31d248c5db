package ecsrun

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/fakeaws/ecs"
)

// taskInterface is the name of a task's interface within its network.
const taskInterface = "eth0"

// Usage asks the runtime, and the kernel about the network.
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
	return u, c.t.traffic(ctx, &u)
}

// traffic fills in what went through the task's interface. The runtime is not asked:
// PodSandboxStats ends containerd before 1.6.22 when any other call looks at a sandbox
// ("concurrent map read and map write", containerd commit 9f650143f).
func (t *task) traffic(ctx context.Context, u *ecs.Usage) error {
	reply, err := t.r.tasks.Get(inNamespace(ctx), &tasksapi.GetRequest{ContainerID: t.sandbox})
	if err != nil {
		return fmt.Errorf("get process of sandbox: %w", err)
	}
	pid := strconv.FormatUint(uint64(reply.GetProcess().GetPid()), 10)
	table, err := os.ReadFile(filepath.Join(t.r.proc, pid, "net", "dev"))
	if err != nil {
		return fmt.Errorf("read use of network: %w", err)
	}
	for line := range strings.Lines(string(table)) {
		name, counters, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) != taskInterface {
			continue
		}
		// The kernel's columns (proc_pid_net(5)): bytes, packets, errs and 5 more received, then sent.
		fields := strings.Fields(counters)
		u.Interface = taskInterface
		for column, into := range map[int]*uint64{0: &u.RxBytes, 2: &u.RxErrors, 8: &u.TxBytes, 10: &u.TxErrors} {
			if column >= len(fields) {
				return fmt.Errorf("read use of network: %q has %d columns", line, len(fields))
			}
			if *into, err = strconv.ParseUint(fields[column], 10, 64); err != nil {
				return fmt.Errorf("read use of network: %w", err)
			}
		}
	}
	return nil
}
