package syncloop

import (
	"context"
	"time"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/syncloop/admit"
	"github.com/burstlet/burstlet/syncloop/plan"
)

// The kubelet's words for pods that end with their node (nodeshutdown).
const (
	reasonNodeShutdown  = "Terminated"
	messageNodeShutdown = "Pod was terminated in response to imminent node shutdown."
)

// Shutdown ends the node's pods as a kubelet does before its host goes down
// (nodeshutdown): no pod is admitted any more; pods that are not critical get
// their own grace, at most grace less critical; then the critical ones get theirs,
// at most critical. They end as Failed, Terminated. It returns when no container
// runs, when the time is over (what runs then is logged), or with the
// context. Run must go on meanwhile.
func (l *Loop) Shutdown(ctx context.Context, grace, critical time.Duration) {
	l.closing.Store(true)
	for _, group := range []struct {
		critical bool
		grace    time.Duration
	}{{false, max(0, grace-critical)}, {true, critical}} {
		l.endGroup(ctx, group.critical, group.grace)
	}
}

func (l *Loop) endGroup(ctx context.Context, critical bool, grace time.Duration) {
	of := func(w *worker) bool {
		pod, _, _ := w.snapshot()
		return pod != nil && isCritical(pod) == critical
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

// isCritical is by the priority alone: so a kubelet groups pods when its host goes down.
func isCritical(pod *corev1.Pod) bool {
	return pod.Spec.Priority != nil && *pod.Spec.Priority >= admit.SystemCriticalPriority
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
