package syncloop

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/plan"
)

// TestAnotherOrderToEnd: whoever comes second, the node's end or an eviction, shortens
// the time, and the first reason stays.
func TestAnotherOrderToEnd(t *testing.T) {
	pod := &corev1.Pod{}
	pod.UID = "u"
	w := newWorker(&Loop{turns: newTurns(), workers: map[types.UID]*worker{}}, pod, backend.Ref{})
	deadline := time.Now().Add(time.Hour)
	w.order(time.Hour, deadline)
	soon := func() *plan.TerminationOrder { return &plan.TerminationOrder{Deadline: time.Now().Add(evictGrace)} }
	if !w.evict(soon(), nil) || w.evict(soon(), nil) {
		t.Error("the first order to evict is one, the second is none")
	}
	if w.ordered.Reason != reasonNodeShutdown || time.Until(w.ordered.Deadline) > evictGrace || !w.ordered.Discard {
		t.Errorf("got %+v", w.ordered)
	}
}
