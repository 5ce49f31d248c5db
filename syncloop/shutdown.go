package syncloop

import (
	"context"
	"slices"
	"time"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/pause"
	"github.com/burstlet/burstlet/syncloop/plan"
)

// The kubelet's words for pods that end with their node (nodeshutdown).
const (
	reasonNodeShutdown  = "Terminated"
	messageNodeShutdown = "Pod was terminated in response to imminent node shutdown."
)

// shutdownRetry is how long after a failure the host is asked again whether it shuts down.
const shutdownRetry = time.Second

// ShutdownGrace is how long the pods of a group have to end when their node shuts down:
// those of this priority and above, up to that of the next group (kubelet:
// ShutdownGracePeriodByPodPriority).
type ShutdownGrace struct {
	Priority int32
	Grace    time.Duration
}

// ShutdownGraces are the groups of a kubelet's shutdownGracePeriod and
// shutdownGracePeriodCriticalPods, the last part of it (nodeshutdown, migrateConfig); nil
// where there is no time.
func ShutdownGraces(grace, critical time.Duration) []ShutdownGrace {
	if grace <= 0 {
		return nil
	}
	return []ShutdownGrace{{0, max(0, grace-critical)}, {backend.SystemCriticalPriority, critical}}
}

// Shutdown ends the node's pods as a kubelet does before its host goes down
// (nodeshutdown): no pod is admitted any more; the groups, which are in ascending order
// of their priorities, end one after another, each pod within its own grace and at most
// that of its group. They end as Failed, Terminated. It returns when no container
// runs, when the time is over (what runs then is logged), or with the
// context. Run must go on meanwhile.
func (l *Loop) Shutdown(ctx context.Context, groups []ShutdownGrace) {
	l.endGroups(ctx, groups, func(*corev1.Pod) bool { return true })
}

// endGroups is Shutdown for some pods.
func (l *Loop) endGroups(ctx context.Context, groups []ShutdownGrace, which func(*corev1.Pod) bool) {
	l.closing.Store(true)
	for i, group := range groups {
		l.endGroup(ctx, func(pod *corev1.Pod) bool { return groupOf(groups, pod) == i && which(pod) }, group.Grace)
	}
}

// leavesHost is false for static pods: one that has ended never starts again under its UID,
// and they are to be there when the host is back. They end with it.
func leavesHost(pod *corev1.Pod) bool { return !backend.IsStatic(pod) }

// groupOf is the group of a pod: the last one that does not begin above its priority, and
// the lowest for those below all (nodeshutdown, groupByPriority).
func groupOf(groups []ShutdownGrace, pod *corev1.Pod) int {
	var priority int32
	if pod.Spec.Priority != nil {
		priority = *pod.Spec.Priority
	}
	above := slices.IndexFunc(groups, func(g ShutdownGrace) bool { return g.Priority > priority })
	if above < 0 {
		above = len(groups)
	}
	return max(0, above-1)
}

// watchHost follows the host's shutdowns, where the backend tells of them and pods are to
// end before.
func (l *Loop) watchHost(ctx context.Context) {
	if l.cfg.Backend.Shutdown != nil && len(l.cfg.Shutdown) > 0 {
		l.goWork(func() { l.followHost(ctx) })
	}
}

// followHost ends all pods whenever the host begins to shut down, and then lets it go on.
// When it is up again, or the shutdown was called off, the node takes pods again.
func (l *Loop) followHost(ctx context.Context) {
	// A shutdown that has begun is for the pods that are there: they are to be known first.
	for known := false; !known; {
		known = !l.LastRelist().IsZero()
		if pause.For(ctx, shutdownRetry) != nil {
			return
		}
	}
	var failed failing
	down := false
	for {
		is, err := l.cfg.Backend.Shutdown.Await(ctx, down)
		if ctx.Err() != nil {
			return
		}
		if failed.tell(ctx, err, "a shutdown of the host would not be noticed, and its pods would end without their grace") ||
			is == down {
			if pause.For(ctx, shutdownRetry) != nil {
				return
			}
			continue
		}
		down = is
		if !down {
			log.G(ctx).Info("the host no longer shuts down")
			l.closing.Store(false)
			l.tellShutdown(false)
			continue
		}
		log.G(ctx).Info("the host shuts down; its pods end")
		l.closing.Store(true)
		l.tellShutdown(true)
		l.cfg.Metrics.HostShutsDown()
		l.endGroups(ctx, l.cfg.Shutdown, leavesHost)
		l.cfg.Metrics.HostIsEmpty()
	}
}

func (l *Loop) tellShutdown(begun bool) {
	if l.cfg.ShuttingDown != nil {
		l.cfg.ShuttingDown(begun)
	}
}

func (l *Loop) endGroup(ctx context.Context, in func(*corev1.Pod) bool, grace time.Duration) {
	of := func(w *worker) bool {
		pod, _, _ := w.snapshot()
		return pod != nil && in(pod)
	}
	deadline := time.Now().Add(grace)
	for _, w := range l.all() {
		if of(w) {
			w.order(grace, deadline)
		}
	}
	// What is killed at its deadline takes a moment to exit.
	if n := l.awaitEnds(ctx, grace+plan.MinGrace, func() (left int) {
		for _, w := range l.all() {
			if of(w) && !w.isOver() {
				left++
			}
		}
		return left
	}); n > 0 {
		log.G(ctx).WithField("pods", n).Warn("the time for the shutdown is over, and pods still run")
	}
}

// awaitEnds returns once none of the pods that are counted is left, or with the context. It
// returns how many are left after so long.
func (l *Loop) awaitEnds(ctx context.Context, limit time.Duration, count func() int) int {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		ended, left := l.ended.next(), count()
		if left == 0 {
			return 0
		}
		select {
		case <-ctx.Done():
			return 0
		case <-timer.C:
			return left
		case <-ended:
		}
	}
}

// order leaves an order to end the pod with its own grace, or at most so much.
func (w *worker) order(grace time.Duration, deadline time.Time) {
	w.mu.Lock()
	own := plan.Grace(w.pod)
	if own < grace {
		deadline = deadline.Add(own - grace)
	}
	w.ordered = plan.Merge(w.ordered, &plan.TerminationOrder{
		Deadline: deadline, Phase: corev1.PodFailed, Disrupted: true,
		Reason: reasonNodeShutdown, Message: messageNodeShutdown,
	})
	w.mu.Unlock()
	w.poke()
}
