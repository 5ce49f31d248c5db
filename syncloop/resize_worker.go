package syncloop

import (
	"context"
	"time"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/allocation"
	"github.com/burstlet/burstlet/syncloop/metrics"
	"github.com/burstlet/burstlet/syncloop/plan"
)

// podNow is the pod with the resources that it is allocated, and what became of
// those that it asks for otherwise, under the lock.
func (w *worker) podNow() (*corev1.Pod, *plan.Resize) {
	if w.allocated == nil { // it was an orphan
		w.allocated = w.pod
	}
	if w.pod == w.allocated {
		return w.pod, nil
	}
	r := w.realloc
	if allocation.EqualPods(w.pod, w.allocated) {
		w.allocated = w.pod
		if r != nil && r.granted == nil {
			w.realloc = nil
		}
		return w.pod, nil
	}
	if r == nil {
		r = &reallocation{}
		w.realloc = r
	}
	if r.on != w.pod || r.allocated != w.allocated {
		r.on, r.allocated, r.merged = w.pod, w.allocated, allocation.WithResourcesOf(w.pod, w.allocated)
	}
	return r.merged, &plan.Resize{Wanted: w.pod, Reason: r.reason, Message: r.message}
}

// recoverAllocation takes over what an earlier life of the process allocated.
func (w *worker) recoverAllocation(facts []backend.PodFacts) (allocated, held *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.allocated, held = allocation.Recover(w.pod, facts, w.loop.traits.Resizes)
	return w.allocated, held
}

// askResize has a change of the pod's resources judged. It is false while that has
// not been done: then nothing is known to decide on.
func (w *worker) askResize(fresh bool) bool {
	w.mu.Lock()
	r, wanted := w.realloc, w.pod
	if wanted != nil && w.allocated != wanted {
		w.podNow()
		r = w.realloc
	}
	if r == nil || r.granted != nil || w.state != syncing || w.removed || wanted == w.allocated {
		w.mu.Unlock()
		return true
	}
	if r.asked != nil && allocation.EqualPods(r.asked, wanted) {
		defer w.mu.Unlock()
		return r.judged
	}
	before := w.allocated
	if r.asked != nil {
		before = r.asked
	}
	w.loop.cfg.Metrics.Resizes.Wanted(before, wanted)
	if r.since.IsZero() {
		r.since = time.Now()
	}
	r.asked, r.judged = wanted, false
	if !w.loop.traits.Resizes {
		defer w.mu.Unlock()
		w.keep(r, wanted, fresh)
		return true
	}
	w.mu.Unlock()
	w.loop.pushResize(w)
	w.mu.Lock()
	defer w.mu.Unlock()
	return r.judged
}

// keep answers for a backend that cannot resize: what was made stays as it is.
func (w *worker) keep(r *reallocation, wanted *corev1.Pod, fresh bool) {
	r.judged = true
	if fresh && w.unlaunched() {
		if rejection, _ := w.loop.admitted.Resize(wanted, w.allocated, w.loop.cfg.Node().Admission); rejection == nil {
			w.allocated, w.realloc = wanted, nil
			w.loop.admitted.Settle(wanted)
			return
		}
	}
	r.reason, r.message = corev1.PodReasonInfeasible, unresizable(w.allocated, wanted)
	w.loop.cfg.Metrics.Resizes.Refused(metrics.DetailUnsupported)
}

// reallocate takes over what was allocated since; true when there is something new
// to decide on.
func (w *worker) reallocate(ctx context.Context, in *plan.Input) bool {
	w.mu.Lock()
	r := w.realloc
	if r == nil || r.granted == nil {
		w.mu.Unlock()
		return false
	}
	granted := r.granted
	w.allocated, w.realloc = granted, nil
	w.mu.Unlock()
	w.resizeStarted(ctx, in, granted)
	w.poke()
	return true
}

// unlaunched is true while nothing of the pod was made or may be.
func (w *worker) unlaunched() bool {
	return w.batch == nil && len(w.believed.Facts) == 0 && len(w.memory.Lost) == 0 && !plan.EverStarted(&w.memory.Status)
}

// unresizable says why a backend that cannot resize keeps what a pod has.
func unresizable(allocated, wanted *corev1.Pod) string {
	name := ""
	for _, pair := range [][2][]corev1.Container{
		{allocated.Spec.Containers, wanted.Spec.Containers}, {allocated.Spec.InitContainers, wanted.Spec.InitContainers},
	} {
		for i := range pair[0] {
			if !allocation.Equal(&pair[0][i].Resources, &pair[1][i].Resources) {
				name = "container " + pair[0][i].Name + ": "
			}
		}
	}
	return name + "this node cannot change resources in place; make the pod anew"
}

// resizeStarted notes that a resize is allocated, and records an Event.
func (w *worker) resizeStarted(ctx context.Context, in *plan.Input, granted *corev1.Pod) {
	w.memory.BeginResize(in.Pod, granted.Generation)
	log.G(ctx).WithField("generation", granted.Generation).Info("resize is allocated")
	w.loop.cfg.event(granted, corev1.EventTypeNormal, plan.ReasonResizeStarted,
		"Pod resize started: "+plan.ResizeSummary(granted, granted.Generation, ""))
}

// recordResizes records Events about resizes that wait or failed.
func (w *worker) recordResizes(in *plan.Input, now *corev1.PodStatus) {
	for _, s := range plan.ResizeEvents(in.Pod, in.Resize, &w.memory.Status, now) {
		w.loop.cfg.event(in.Pod, s.Kind, s.Reason, s.Message)
	}
}

// resizeDone notes that the pod has what it is allocated.
func (w *worker) resizeDone(ctx context.Context, in *plan.Input) {
	generation := w.memory.Resizing.Generation
	w.memory.Resizing = nil
	log.G(ctx).WithField("generation", generation).Info("resize is done")
	w.loop.cfg.event(in.Pod, corev1.EventTypeNormal, plan.ReasonResizeCompleted,
		"Pod resize completed: "+plan.ResizeSummary(in.Pod, generation, ""))
	w.settleResize(in.Pod)
	w.loop.retryResizes(triggerPodResized)
}

// settleResize gives back what a pod no longer has, unless it was granted something else
// meanwhile: the room found for that holds until it has it.
func (w *worker) settleResize(pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.realloc == nil || w.realloc.granted == nil {
		w.loop.admitted.Settle(pod)
	}
}
