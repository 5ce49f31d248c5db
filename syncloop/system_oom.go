package syncloop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/log"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/pause"
)

// reasonSystemOOM is the kubelet's reason of an Event (oom_watcher_linux.go).
const reasonSystemOOM = "SystemOOM"

// oomRetry is how long after a failure the host is asked again.
const oomRetry = 10 * time.Second

// watchOOMs records an Event about the node for each process that the host's kernel kills
// because the host has no memory left.
func (l *Loop) watchOOMs(ctx context.Context) {
	if l.cfg.Backend.SystemOOMs != nil && l.cfg.NodeEvent != nil {
		l.goWork(func() { l.followOOMs(ctx) })
	}
}

// followOOMs tells of kills since it began. What happens while the host cannot be reached is
// told once it can. A kubelet tells at its start again what the kernel's log holds.
func (l *Loop) followOOMs(ctx context.Context) {
	var failed failing
	for mark := ""; ; {
		found, err := l.cfg.Backend.SystemOOMs.Await(ctx, mark)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, backend.ErrUnsupported) {
			log.G(ctx).WithError(err).Warn("no SystemOOM Events will tell of processes that the host's kernel kills")
			return
		}
		stuck := failed.tell(ctx, err, "no SystemOOM Events tell of processes that the host's kernel kills; trying again") ||
			len(found.Kills) == 0 && (mark != "" || found.Mark == "") // it would answer at once for ever
		if stuck {
			if pause.For(ctx, oomRetry) != nil {
				return
			}
			continue
		}
		mark = found.Mark
		for _, k := range found.Kills {
			log.G(ctx).WithFields(log.Fields{"process": k.Process, "pid": k.PID}).
				Warn("the host has no memory left, its kernel killed a process")
			l.nodeEvent(reasonSystemOOM, messageSystemOOM(k))
		}
	}
}

// messageSystemOOM is the kubelet's.
func messageSystemOOM(k backend.OOMKill) string {
	if k.Process == "" || k.PID == 0 {
		return "System OOM encountered"
	}
	return fmt.Sprintf("System OOM encountered, victim process: %s, pid: %d", k.Process, k.PID)
}
