package cri

import (
	"context"
	"path"
	"sync"
	"time"

	"github.com/containerd/log"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

const (
	// rotatePeriod is the kubelet's containerLogMonitorInterval.
	rotatePeriod = 10 * time.Second
	// sweepPeriod is how often logs that no pod owns are removed.
	sweepPeriod = time.Minute
)

// hostLogs is what the last complete listing says of the logs on the host: which to
// rotate, and which pods' to keep.
type hostLogs struct {
	mu sync.Mutex
	// logs of running containers, with the ids of those.
	logs map[string]string
	// uids of the pods that there are; nil before the first listing.
	uids []string
}

func newHostLogs() *hostLogs { return &hostLogs{} }

// listed takes a complete listing.
func (l *hostLogs) listed(r *remote, views []*view) {
	logs, uids := map[string]string{}, make([]string, 0, len(views))
	for _, v := range views {
		uids = append(uids, string(v.ref.UID))
		for _, c := range v.containers {
			if c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
				m := c.GetMetadata()
				logs[path.Join(r.podLogDir(v.ref), logPath(m.GetName(), int(m.GetAttempt())))] = c.GetId()
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.logs, l.uids = logs, uids
}

func (l *hostLogs) now() (logs map[string]string, uids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.logs, l.uids
}

// maintainLogs rotates the logs on the host, and removes those of pods that are not
// there, until the context ends.
func (r *remote) maintainLogs(ctx context.Context, may backend.Permit) error {
	rotate, sweep := time.NewTicker(rotatePeriod), time.NewTicker(sweepPeriod)
	defer rotate.Stop()
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-rotate.C:
			r.rotateLogs(ctx, may)
		case <-sweep.C:
			r.sweep(ctx, may)
		}
	}
}

// rotateLogs rotates what has outgrown its size and has the runtime open new
// files. A container that has ended meanwhile needs none.
func (r *remote) rotateLogs(ctx context.Context, may backend.Permit) {
	logs, _ := r.hostLogs.now()
	if len(logs) == 0 || may.Ask("rotate logs") != nil {
		return
	}
	request := host.Rotation{MaxSize: r.cfg.ContainerLogMaxSize, MaxFiles: r.cfg.ContainerLogMaxFiles}
	for file := range logs {
		request.Logs = append(request.Logs, file)
	}
	rotated, err := r.host.Rotate(ctx, request)
	if err != nil && ctx.Err() == nil {
		log.G(ctx).WithError(err).Warn("failed to rotate the logs of containers")
	}
	for _, file := range rotated {
		if may.Ask("reopen a log") != nil {
			return
		}
		_, err := r.runtime.ReopenContainerLog(ctx, &runtimeapi.ReopenContainerLogRequest{ContainerId: logs[file]})
		if err != nil && !isNotFound(err) && ctx.Err() == nil {
			// The next rotation finds the log missing and puts it back.
			log.G(ctx).WithError(err).WithField("container", logs[file]).Warn("failed to reopen the log of a container")
		}
	}
}

// sweep removes logs of pods that are not there.
func (r *remote) sweep(ctx context.Context, may backend.Permit) {
	_, uids := r.hostLogs.now()
	if uids == nil || may.Ask("remove logs that nobody owns") != nil {
		return
	}
	err := r.host.Sweep(ctx, host.Sweep{
		PodLogs: r.cfg.PodLogsDir, KeepUIDs: uids, Links: r.cfg.ContainerLogsDir, Node: r.cfg.NodeIdentity,
	})
	if err != nil && ctx.Err() == nil {
		log.G(ctx).WithError(err).Warn("failed to remove logs that no pod owns")
	}
}
