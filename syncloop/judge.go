package syncloop

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/syncloop/plan"
)

// applicant is a pod that was not judged yet.
type applicant struct {
	*worker
	// fresh is the pod with the resources that it is judged by.
	fresh *corev1.Pod
	// told is true once users were told what it waits for.
	told bool
	// preempting is true once others make room for it: they are to make it for no one else.
	preempting bool
}

// judgeAll judges the pods that wait for it, once the remote was listed: those that run
// already take their room first, the others follow as they were made.
func (l *Loop) judgeAll() {
	if !l.remoteKnown.reached() || len(l.applicants) == 0 {
		return
	}
	var fresh []*applicant
	for _, a := range l.applicants {
		if !l.judgedBefore(a) {
			fresh = append(fresh, a)
		}
	}
	slices.SortFunc(fresh, func(a, b *applicant) int {
		x, _, _ := a.snapshot()
		y, _, _ := b.snapshot()
		if a.preempting != b.preempting {
			return map[bool]int{true: -1, false: 1}[a.preempting]
		}
		return cmp.Or(x.CreationTimestamp.Compare(y.CreationTimestamp.Time), cmp.Compare(x.UID, y.UID))
	})
	l.judging.Lock()
	defer l.judging.Unlock()
	for _, a := range fresh {
		l.judgeFresh(a)
	}
}

// judgedBefore is for a pod that nothing is to be judged of: one that the remote has, or
// that ran once, was admitted by an earlier life of the process, and takes its room; one
// that ends needs none.
func (l *Loop) judgedBefore(a *applicant) bool {
	pod, _, _ := a.snapshot()
	record, _ := l.pleg.Get(pod.UID)
	allocated, held := a.recoverAllocation(record.Facts)
	switch {
	case plan.Terminal(pod.Status.Phase):
	case len(record.Facts) > 0, plan.EverStarted(&pod.Status):
		if l.admitted.Add(held); a.isRemoved() {
			l.admitted.Leave(pod.UID)
		}
	case pod.DeletionTimestamp != nil, a.isRemoved():
	default:
		a.fresh = allocated
		return false
	}
	delete(l.applicants, pod.UID)
	a.judge(nil, time.Time{})
	return true
}

// judgeFresh admits a pod, or says why not. It waits while nobody knows what the node
// has, and for the room of pods that are gone from the API and have not ended: the
// scheduler gave that to it, and whatever replaces a pod that failed for it would fail
// as well.
func (l *Loop) judgeFresh(a *applicant) {
	node := l.cfg.Node().Admission
	node.ShuttingDown = l.closing.Load()
	node.Pressure, _ = l.Pressure()
	if node.Allocatable == nil && !node.ShuttingDown {
		return
	}
	if lack := l.admitted.Awaits(a.fresh, node); lack != nil {
		if !a.told {
			a.told = true
			l.cfg.event(a.fresh, corev1.EventTypeWarning, lack.Reason, lack.Message+
				"; the pod waits, for what it lacks belongs to a pod that was removed from the API and has not ended here yet")
		}
		return
	}
	if l.preempt(a, node) {
		return
	}
	rejection, at := l.admitted.Judge(a.fresh, node)
	if rejection != nil {
		l.cfg.Metrics.Refused(rejection.Reason)
	}
	delete(l.applicants, a.fresh.UID)
	a.judge(rejection, at)
}

// launchRefused settles when a pod fails that the remote refuses.
func (w *worker) launchRefused() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pod != nil {
		w.refuseAt = w.loop.admitted.Refuse(w.pod)
	}
}

// vacate gives the room of a pod to those that wait for it, in their order: not while they
// are being judged, when it would go to whoever comes next and not to whoever is first.
func (l *Loop) vacate(uid types.UID) {
	l.judging.Lock()
	l.admitted.Remove(uid)
	l.judging.Unlock()
	select {
	case l.vacated <- struct{}{}:
	default:
	}
}
