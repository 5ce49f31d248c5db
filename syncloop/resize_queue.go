package syncloop

import (
	"cmp"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/syncloop/admit"
	"github.com/burstlet/burstlet/syncloop/allocation"
	"github.com/burstlet/burstlet/syncloop/metrics"
)

// The kubelet's words for what makes it judge waiting resizes again
// (allocation_manager.go).
const (
	triggerPodUpdated    = "pod_updated"
	triggerPodsAdded     = "pods_added"
	triggerPodsRemoved   = "pods_removed"
	triggerPodResized    = "pod_resized"
	triggerPodTerminated = "pod_terminated"
	triggerPeriodic      = "periodic_retry"
)

// resizes are the changes of resources that wait to be allocated. One judge at a
// time goes through them in the kubelet's order.
type resizes struct {
	mu sync.Mutex
	// open is true once all pods that run already have their room.
	open    bool
	waiting []*worker
}

// reallocation is what one pod's change has come to; of the worker's slot. One
// that is nil: the pod has what it asks for.
type reallocation struct {
	// asked is the pod whose resources are judged, granted one whose resources
	// were found room for and that the worker has not taken over yet.
	asked, granted *corev1.Pod
	// judged is false until what is asked has been judged; reason and message
	// are then those of what was asked before.
	judged          bool
	reason, message string
	since           time.Time
	// merged is the pod on with the resources of allocated.
	on, allocated, merged *corev1.Pod
}

// pushResize has a worker's change judged, with those that wait.
func (l *Loop) pushResize(w *worker) {
	l.resizes.mu.Lock()
	if !slices.Contains(l.resizes.waiting, w) {
		l.resizes.waiting = append(l.resizes.waiting, w)
	}
	l.resizes.mu.Unlock()
	l.retryResizes(triggerPodUpdated)
}

// openResizes begins to judge.
func (l *Loop) openResizes() {
	l.resizes.mu.Lock()
	l.resizes.open = true
	l.resizes.mu.Unlock()
	l.retryResizes(triggerPodsAdded)
}

// retryResizes judges all that waits, because of trigger.
func (l *Loop) retryResizes(trigger string) {
	r := &l.resizes
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.open || len(r.waiting) == 0 {
		return
	}
	slices.SortStableFunc(r.waiting, func(a, b *worker) int { return a.claim().compare(b.claim()) })
	node := l.cfg.Node().Admission
	r.waiting = slices.DeleteFunc(r.waiting, func(w *worker) bool { return !w.judgeResize(node, trigger) })
}

// claim says who comes first (kubelet: sortPendingResizes): who asks for no more
// than before, who has the higher priority, who is Guaranteed, who waits longest.
type claim struct {
	grows      bool
	priority   int32
	guaranteed bool
	since      time.Time
}

func (a claim) compare(b claim) int {
	first := func(a, b bool) int {
		if a == b {
			return 0
		}
		if a {
			return -1
		}
		return 1
	}
	return cmp.Or(first(!a.grows, !b.grows), cmp.Compare(b.priority, a.priority),
		first(a.guaranteed, b.guaranteed), a.since.Compare(b.since))
}

func (w *worker) claim() claim {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := claim{grows: admit.Grows(w.allocated, w.pod), guaranteed: w.pod.Status.QOSClass == corev1.PodQOSGuaranteed}
	if p := w.pod.Spec.Priority; p != nil {
		c.priority = *p
	}
	if w.realloc != nil {
		c.since = w.realloc.since
	}
	return c
}

// judgeResize judges the worker's change; true while it goes on to wait.
func (w *worker) judgeResize(node admit.Node, trigger string) (waits bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.realloc
	if r == nil {
		return false
	}
	if !r.judged {
		r.judged = true
		w.enqueue()
	}
	if w.removed || w.state != syncing || r.granted != nil || allocation.EqualPods(w.pod, w.allocated) {
		return false
	}
	asked := w.pod
	rejection, admitted := w.loop.admitted.Resize(asked, w.allocated, node)
	switch {
	case !admitted:
		return false
	case rejection == nil:
		w.loop.cfg.Metrics.Resizes.Allocated(r.reason, trigger)
		r.asked, r.granted = asked, asked
		w.enqueue()
		return false
	case r.reason != rejection.Reason || r.message != rejection.Message:
		if rejection.Reason == corev1.PodReasonInfeasible && r.reason != rejection.Reason {
			w.loop.cfg.Metrics.Resizes.Refused(metrics.DetailCapacity)
		}
		r.reason, r.message = rejection.Reason, rejection.Message
		w.enqueue()
	}
	r.asked = asked
	return true
}
