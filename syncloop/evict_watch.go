package syncloop

import (
	"context"
	"time"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/eviction"
	"github.com/burstlet/burstlet/syncloop/plan"
)

const (
	// evictPeriod is how often the host, and pods with a limit on local storage, are
	// measured (kubelet: evictionMonitoringPeriod).
	evictPeriod = 10 * time.Second
	// storageAge is how old a measurement may be that somebody else asked for.
	storageAge = evictPeriod / 2
	// evictGrace is what the containers of an evicted pod get (kubelet:
	// immediateEvictionGracePeriodSeconds).
	evictGrace = time.Second
	// cleanupTimeout is how long nobody else is evicted, for an evicted pod may yet make
	// room (kubelet: podCleanupTimeout).
	cleanupTimeout = 30 * time.Second
)

// watchEviction measures until the context ends, and evicts pods: those that are over a
// limit on local storage, and one after another while the host runs short of something.
// After an eviction it measures again as soon as the pod has gone.
func (l *Loop) watchEviction(ctx context.Context) {
	ticker := time.NewTicker(evictPeriod)
	defer ticker.Stop()
	for {
		for victims := l.evictOnce(ctx); len(victims) > 0 && ctx.Err() == nil; victims = l.evictOnce(ctx) {
			l.awaitDiscarded(ctx, victims, cleanupTimeout)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// evictOnce measures once, and returns the pods that it evicted.
func (l *Loop) evictOnce(ctx context.Context) []*worker {
	met := l.pressure.judge(ctx, l)
	limited := l.limitedPods()
	if len(limited) == 0 && met == nil || l.cfg.Backend.Stats == nil {
		return nil
	}
	age := storageAge
	if met != nil {
		age = 0 // who is evicted depends on it
	}
	facts, err := l.Stats(ctx, age)
	if l.unmeasured.tell(ctx, err, "pods are not measured, and none is evicted; trying again") {
		return nil
	}
	usage := newestStats(&facts)
	if victims := l.evictOver(ctx, limited, usage); len(victims) > 0 || met == nil {
		return victims
	}
	return l.relieve(ctx, met, usage)
}

// failing tells of an error when it is news.
type failing struct{ told bool }

// tell is true while there is an error.
func (f *failing) tell(ctx context.Context, err error, what string) bool {
	if err != nil && ctx.Err() == nil && !f.told {
		log.G(ctx).WithError(err).Warn(what)
	}
	f.told = err != nil
	return err != nil
}

// limitedPods are the workers of pods that run and have a limit on local storage.
func (l *Loop) limitedPods() []*worker {
	var limited []*worker
	for _, w := range l.all() {
		if pod := w.evictable(); pod != nil && eviction.LimitsStorage(pod) && w.couldBeRunning() {
			limited = append(limited, w)
		}
	}
	return limited
}

// newestStats are those of the newest attempt of each pod.
func newestStats(facts *backend.StatsFacts) map[types.UID]*backend.PodStats {
	newest := map[types.UID]*backend.PodStats{}
	for i := range facts.Pods {
		p := &facts.Pods[i]
		if other := newest[p.UID]; other == nil || p.Attempt > other.Attempt {
			newest[p.UID] = p
		}
	}
	return newest
}

// evictOver evicts pods that are over a limit on local storage. Not keeping to one's own
// limits is no disruption.
func (l *Loop) evictOver(
	ctx context.Context, limited []*worker, usage map[types.UID]*backend.PodStats,
) (evicted []*worker) {
	for _, w := range limited {
		pod, _, _ := w.snapshot()
		stats := usage[pod.UID]
		if stats == nil {
			continue
		}
		if e := eviction.OverStorage(pod, stats); e != nil &&
			w.evict(&plan.TerminationOrder{Deadline: time.Now().Add(evictGrace), Message: e.Message}, nil) {
			evicted = append(evicted, w)
			l.cfg.Metrics.Evicted(eviction.Signal(e.Signal))
			log.G(ctx).WithFields(log.Fields{"pod": pod.Namespace + "/" + pod.Name, "uid": pod.UID, "limit": e.Signal}).
				Info("evicting a pod that is over its limit on local storage")
		}
	}
	return evicted
}

// evict leaves an order to end the pod as Evicted, and to leave nothing of it on the host.
// It is false where there was one already: the time is then at most shorter. The Event about
// it has the annotations.
func (w *worker) evict(order *plan.TerminationOrder, annotations map[string]string) bool {
	order.Phase, order.Reason, order.Discard = corev1.PodFailed, eviction.Reason, true
	w.mu.Lock()
	first := !w.evicted
	w.evicted = true
	if first {
		w.evictedFor = annotations
	}
	w.ordered = plan.Merge(w.ordered, order)
	w.mu.Unlock()
	w.poke()
	return first
}

// discard leaves an order to remove what a pod that has ended has on the host.
func (w *worker) discard() {
	w.mu.Lock()
	w.ordered = plan.Merge(w.ordered, &plan.TerminationOrder{Deadline: time.Now(), Discard: true})
	w.mu.Unlock()
	w.poke()
}

// awaitDiscarded returns once nothing of the pods is left on the host, after so long, or
// with the context.
func (l *Loop) awaitDiscarded(ctx context.Context, pods []*worker, limit time.Duration) {
	if n := l.awaitEnds(ctx, limit, func() (left int) {
		for _, w := range pods {
			if !w.isDiscarded() && l.worker(w.ref.UID) == w {
				left++
			}
		}
		return left
	}); n > 0 {
		log.G(ctx).WithField("pods", n).Warn("pods that are to make room on their host are still there")
	}
}
