package syncloop

import (
	"context"
	"time"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/plan"
)

const (
	// storagePeriod is how often pods with a limit on local storage are measured
	// (kubelet: monitoringInterval).
	storagePeriod = 10 * time.Second
	// storageAge is how old a measurement may be that somebody else asked for.
	storageAge = storagePeriod / 2
	// evictGrace is what the containers of an evicted pod get (kubelet:
	// immediateEvictionGracePeriodSeconds).
	evictGrace = time.Second
)

// watchStorage measures until the context ends, and evicts pods that are over a
// limit on local storage. Without pods that have one it asks nothing.
func (l *Loop) watchStorage(ctx context.Context) {
	ticker := time.NewTicker(storagePeriod)
	defer ticker.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		limited := l.limitedPods()
		if len(limited) == 0 {
			continue
		}
		facts, err := l.Stats(ctx, storageAge)
		if err != nil {
			if ctx.Err() == nil && !failing {
				log.G(ctx).WithError(err).Warn("the pods' local storage is not measured, trying again")
			}
			failing = true
			continue
		}
		failing = false
		l.evictOver(ctx, limited, &facts)
	}
}

// limitedPods are the workers of pods that run and have a limit on local storage.
// Critical pods are not evicted.
func (l *Loop) limitedPods() map[types.UID]*worker {
	limited := map[types.UID]*worker{}
	for _, w := range l.all() {
		pod, _, _ := w.snapshot()
		if pod != nil && limitsStorage(pod) && !isCritical(pod) && w.couldBeRunning() {
			limited[pod.UID] = w
		}
	}
	return limited
}

// evictOver judges the newest attempt of each pod.
func (l *Loop) evictOver(ctx context.Context, limited map[types.UID]*worker, facts *backend.StatsFacts) {
	newest := map[types.UID]*backend.PodStats{}
	for i := range facts.Pods {
		p := &facts.Pods[i]
		if other := newest[p.UID]; limited[p.UID] != nil && (other == nil || p.Attempt > other.Attempt) {
			newest[p.UID] = p
		}
	}
	for uid, stats := range newest {
		w := limited[uid]
		pod, _, _ := w.snapshot()
		if e := overStorage(pod, stats); e != nil && w.evict(e.message) {
			l.cfg.Metrics.evicted(e.signal)
			log.G(ctx).WithFields(log.Fields{"pod": pod.Namespace + "/" + pod.Name, "uid": uid, "limit": e.signal}).
				Info("evicting a pod that is over its limit on local storage")
		}
	}
}

// evict leaves an order to end the pod as one that did not keep to its limits, which
// is no disruption. It is false where there was one already.
func (w *worker) evict(message string) bool {
	w.mu.Lock()
	first := !w.evicted
	w.evicted = true
	w.ordered = plan.Merge(w.ordered, &plan.TerminationOrder{
		Deadline: time.Now().Add(evictGrace), Phase: corev1.PodFailed, Reason: reasonEvicted, Message: message,
	})
	w.mu.Unlock()
	if first {
		w.poke()
	}
	return first
}
