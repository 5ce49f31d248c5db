package syncloop

import (
	"time"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/admit"
	"github.com/burstlet/burstlet/syncloop/plan"
)

// The kubelet's words for pods that make room for a critical one (preemption.go).
const (
	reasonPreempting   = "Preempting"
	messagePreempting  = "Preempted in order to admit critical pod"
	disruptionOfVictim = "Pod was preempted by Kubelet to accommodate a critical pod."
)

// preempt ends pods of less importance where a critical pod lacks nothing but their room; it
// is admitted once they have ended. False where there is nothing to be had.
func (l *Loop) preempt(a *applicant, node admit.Node) bool {
	if !backend.Critical(a.fresh) {
		return false
	}
	workers := map[types.UID]*worker{}
	var running []*corev1.Pod
	for _, w := range l.all() {
		if pod := w.running(); pod != nil {
			workers[pod.UID] = w
			running = append(running, pod)
		}
	}
	victims, lacks := l.admitted.Preempt(a.fresh, running, node)
	for _, pod := range victims {
		l.cfg.event(pod, corev1.EventTypeWarning, reasonPreempting, messagePreempting)
		l.cfg.Metrics.Preempted(lacks)
		l.admitted.Leave(pod.UID)
		workers[pod.UID].preempt(plan.Grace(pod))
	}
	if len(victims) > 0 {
		log.L.WithFields(log.Fields{"pod": a.fresh.Namespace + "/" + a.fresh.Name, "victims": len(victims), "lacks": lacks}).
			Info("ending pods to make room for a critical one")
		a.preempting, a.told = true, true
	}
	return len(victims) > 0
}

// preempt leaves an order to end the pod within its own grace, and to leave nothing of it.
func (w *worker) preempt(grace time.Duration) {
	w.mu.Lock()
	w.ordered = plan.Merge(w.ordered, &plan.TerminationOrder{
		Deadline: time.Now().Add(grace), Phase: corev1.PodFailed, Reason: reasonPreempting, Message: messagePreempting,
		Disrupted: true, Disruption: disruptionOfVictim, Discard: true,
	})
	w.mu.Unlock()
	w.poke()
}
