package cri

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/containerd/log"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/transport"
)

const (
	// rotatePeriod is the kubelet's containerLogMonitorInterval.
	rotatePeriod = 10 * time.Second
	// rotateRetry is for a host that cannot be reached: once it can, it learns soon how to go
	// on by itself.
	rotateRetry = time.Second
	// sweepPeriod is how often logs that no pod owns are removed.
	sweepPeriod = time.Minute
)

// sweepListing is how old the listing may be by which something is removed: host.Host
// spares what is younger than a minute, so that nothing goes that was made since.
const sweepListing = 30 * time.Second

// hostLogs is what the last complete listing says of what the host keeps: which logs to
// rotate, which pods' to keep, and which containers there are in pods' cgroups.
type hostLogs struct {
	mu sync.Mutex
	// logs of running containers, with the ids of those.
	logs map[string]string
	// uids of the pods that there are; nil before the first listing.
	uids []string
	// views are those of the listing.
	views []*view
	// at is when the listing was asked for.
	at time.Time

	// unopened are logs that were rotated and not opened anew; maintainLogs alone has them.
	unopened []string
}

func newHostLogs() *hostLogs { return &hostLogs{} }

// listed takes a complete listing that was asked for at a time.
func (l *hostLogs) listed(r *remote, at time.Time, views []*view) {
	logs, uids := map[string]string{}, make([]string, 0, len(views))
	for _, v := range views {
		uids = append(uids, string(v.ref.UID))
		for _, c := range v.containers {
			if c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
				m := c.GetMetadata()
				logs[path.Join(r.convert.LogDir(v.ref), convert.LogPath(m.GetName(), int(m.GetAttempt())))] = c.GetId()
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.logs, l.uids, l.at, l.views = logs, uids, at, views
}

// running are the logs to rotate.
func (l *hostLogs) running() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.logs
}

// kept are the pods and containers that there are; false where that is not known well
// enough to remove others.
func (l *hostLogs) kept() (uids []string, known []host.Known, ok bool) {
	l.mu.Lock()
	views, uids, ok := l.views, l.uids, l.uids != nil && time.Since(l.at) < sweepListing
	l.mu.Unlock()
	if !ok {
		return nil, nil, false
	}
	return uids, knownOf(views), true
}

// knownOf are the containers in pods' cgroups.
func knownOf(views []*view) []host.Known {
	known := map[string]host.Known{} // by the cgroup, which attempts of a pod share
	for _, v := range views {
		if cgroup := cgroupOf(v.sandbox); cgroup != nil {
			known[cgroup.Parent] = host.Known{Cgroup: *cgroup, IDs: append(known[cgroup.Parent].IDs, v.ids()...)}
		}
	}
	return slices.Collect(maps.Values(known))
}

// maintainLogs rotates the logs on the host, and removes what nobody owns, until the
// context ends.
func (r *remote) maintainLogs(ctx context.Context, may backend.Permit) error {
	rotate, sweep := time.NewTicker(rotateRetry), time.NewTicker(sweepPeriod)
	defer rotate.Stop()
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-rotate.C:
			next := rotatePeriod
			if !r.rotateLogs(ctx, may) {
				next = rotateRetry
			}
			rotate.Reset(next)
		case <-sweep.C:
			r.sweep(ctx, may)
		}
	}
}

// rotateLogs rotates what has outgrown its size and has the runtime open new files. A log
// that it does not open, as that of a container that has ended meanwhile, gets its name back
// (kubelet: rotateLatestLog). It is false where the host cannot be reached.
func (r *remote) rotateLogs(ctx context.Context, may backend.Permit) bool {
	logs := r.hostLogs.running()
	keep, err := r.keepPods()
	if err != nil {
		log.G(ctx).WithError(err).Warn("logs are not rotated while the host cannot be reached")
	}
	// Without logs it still ends a process that rotated while this one was away.
	if len(logs)+len(r.hostLogs.unopened) == 0 && keep == nil || may.Ask("rotate logs") != nil {
		return true
	}
	r.nameBack(ctx)
	request := host.Rotation{MaxSize: r.cfg.ContainerLogMaxSize, MaxFiles: r.cfg.ContainerLogMaxFiles, Keep: keep}
	for file := range logs {
		request.Logs = append(request.Logs, file)
	}
	rotated, err := r.host.Rotate(ctx, request)
	if errors.Is(err, backend.ErrUnavailable) {
		return false // the link says so
	}
	if err != nil && ctx.Err() == nil {
		log.G(ctx).WithError(err).Warn("failed to rotate the logs of containers")
	}
	for i, file := range rotated {
		if may.Ask("reopen a log") != nil {
			r.hostLogs.unopened = append(r.hostLogs.unopened, rotated[i:]...)
			return true
		}
		_, err := r.runtime.ReopenContainerLog(ctx, &runtimeapi.ReopenContainerLogRequest{ContainerId: logs[file]})
		if err == nil {
			continue
		}
		r.hostLogs.unopened = append(r.hostLogs.unopened, file)
		if !transport.IsNotFound(err) && ctx.Err() == nil {
			log.G(ctx).WithError(err).WithField("container", logs[file]).Warn("failed to reopen the log of a container")
		}
	}
	r.nameBack(ctx)
	return true
}

// nameBack undoes the rotation of logs that were not opened anew. Where the host cannot be
// reached the next rotation does it.
func (r *remote) nameBack(ctx context.Context) {
	if len(r.hostLogs.unopened) == 0 {
		return
	}
	// No log is that large, and one that is missing gets its newest file back.
	request := host.Rotation{Logs: r.hostLogs.unopened, MaxSize: math.MaxInt64, MaxFiles: r.cfg.ContainerLogMaxFiles}
	_, err := r.host.Rotate(ctx, request)
	if errors.Is(err, backend.ErrUnavailable) || ctx.Err() != nil {
		return
	}
	if err != nil {
		log.G(ctx).WithError(err).Warn("failed to give logs that were not reopened their names back")
	}
	r.hostLogs.unopened = nil
}

// keepPods has the host see to the node's pods while nobody is connected: it rotates their
// logs, and evicts those over a limit on local storage. Where burstlet runs
// on the host, nothing outlives it but calls.
func (r *remote) keepPods() (*host.Keep, error) {
	if !r.cfg.Remote() {
		return nil, nil
	}
	list, err := proto.Marshal(&runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		LabelSelector: r.convert.Selector(""),
		State:         &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	}})
	if err != nil {
		return nil, fmt.Errorf("encode the request for running containers: %w", err)
	}
	limits, err := r.keepLimits()
	if err != nil {
		return nil, err
	}
	return &host.Keep{
		Root: r.cfg.PodsDir, Node: r.cfg.NodeIdentity, Socket: r.socket, List: list, PodLogs: r.cfg.PodLogsDir,
		Period: rotatePeriod, Evict: limits,
	}, nil
}

// endKeeping has nothing see to the node's pods on the host from now on.
func (r *remote) endKeeping(ctx context.Context) error {
	keep, err := r.keepPods()
	if err != nil || keep == nil {
		return err
	}
	keep.Evict = nil
	_, err = r.host.Rotate(ctx, host.Rotation{Keep: keep})
	return err
}

// sweep removes logs of pods that are not there, and what starts that the runtime forgot
// left in the cgroups of those that are.
func (r *remote) sweep(ctx context.Context, may backend.Permit) {
	uids, known, ok := r.hostLogs.kept()
	if !ok || may.Ask("remove what nobody owns") != nil {
		return
	}
	err := r.host.Sweep(ctx, host.Sweep{
		PodLogs: r.cfg.PodLogsDir, KeepUIDs: uids, Links: r.cfg.ContainerLogsDir, Node: r.cfg.NodeIdentity,
	})
	if err != nil && ctx.Err() == nil {
		log.G(ctx).WithError(err).Warn("failed to remove logs that no pod owns")
	}
	removed, err := r.host.Strays(ctx, known)
	if len(removed) > 0 {
		log.G(ctx).WithField("cgroups", removed).Warn("removed what a start that the runtime forgot left in cgroups of pods")
	}
	if err != nil && ctx.Err() == nil {
		log.G(ctx).WithError(err).Warn("failed to remove what the runtime forgot in cgroups of pods")
	}
}
