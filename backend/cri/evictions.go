package cri

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"sync"
	"time"

	"github.com/containerd/log"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// evictGrace is what containers get that the host evicts by itself: what the engine gives
// them (kubelet: immediateEvictionGracePeriodSeconds, but minimumGracePeriodInSeconds at
// least).
const evictGrace = 2 * time.Second

// evictions are the host's records of pods that it evicted while nobody was connected. They
// are read once in each session of its helper, for during one the host evicts nobody. On
// this machine nobody is ever away.
type evictions struct {
	// session is closed with the helper that runs; nil: on this machine.
	session func(context.Context) (<-chan struct{}, error)

	mu sync.Mutex
	// read is the session in which records, by UID, were read.
	read    <-chan struct{}
	records map[types.UID]*backend.Eviction
}

// evicted are the records by UID. What was listed before it was called cannot show what an
// eviction stopped that is not among them: a record is made first.
func (r *remote) evicted(ctx context.Context) (map[types.UID]*backend.Eviction, error) {
	e := &r.evictions
	if e.session == nil {
		return nil, nil
	}
	session, err := e.session(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask the host which pods it evicted: %w", err)
	}
	if known, ok := e.of(session); ok {
		return known, nil
	}
	all, err := r.host.Evicted(
		ctx, host.EvictedRequest{Root: r.cfg.PodsDir, Node: r.cfg.NodeIdentity, PodLogs: r.cfg.PodLogsDir},
	)
	if err != nil {
		return nil, fmt.Errorf("ask the host which pods it evicted: %w", err)
	}
	records := make(map[types.UID]*backend.Eviction, len(all))
	for _, a := range all {
		records[types.UID(a.UID)] = &backend.Eviction{
			Limit: a.Limit, Used: a.Used, Message: a.Message, At: r.clock.ours(a.Time),
		}
	}
	for uid := range e.remember(session, records) {
		log.G(ctx).WithFields(log.Fields{"uid": uid, "limit": records[uid].Limit, "used": records[uid].Used}).
			Info("the host evicted a pod while nobody was connected")
	}
	return records, nil
}

// of are the records that were read in a session that goes on.
func (e *evictions) of(session <-chan struct{}) (map[types.UID]*backend.Eviction, bool) {
	select {
	case <-session:
		return nil, false
	default:
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.records, e.read == session
}

// remember keeps what was read in a session, and returns what was not known before it.
func (e *evictions) remember(session <-chan struct{}, records map[types.UID]*backend.Eviction) map[types.UID]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	news := map[types.UID]bool{}
	for uid := range records {
		if e.records[uid] == nil {
			news[uid] = true
		}
	}
	e.read, e.records = session, records
	return news
}

// storageLimits is the file by which the host holds a pod to its limits on local storage; nil
// for one that has none, or that nobody evicts.
func storageLimits(pod *corev1.Pod, logDir string) ([]host.Write, error) {
	limits := backend.StorageLimits(pod)
	if backend.Critical(pod) || !limits.Any() {
		return nil, nil
	}
	text, err := json.Marshal(limits)
	if err != nil {
		return nil, fmt.Errorf("encode the pod's limits on local storage: %w", err)
	}
	return []host.Write{{Path: path.Join(logDir, host.StorageLimits), Data: text, Mode: 0o600}}, nil
}

// keepLimits has the host hold pods to their limits while nobody is connected.
func (r *remote) keepLimits() (*host.Evict, error) {
	stats, err := proto.Marshal(&runtimeapi.ListContainerStatsRequest{
		Filter: &runtimeapi.ContainerStatsFilter{LabelSelector: r.convert.Selector("")},
	})
	if err != nil {
		return nil, fmt.Errorf("encode the request for the containers' usage: %w", err)
	}
	return &host.Evict{Stats: stats, Grace: evictGrace}, nil
}
