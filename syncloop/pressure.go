package syncloop

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/eviction"
	"github.com/burstlet/burstlet/syncloop/plan"
)

const (
	// signalsTimeout bounds one measurement of the host.
	signalsTimeout = 10 * time.Second
	// imagesTimeout bounds the removal of unused images before pods are evicted.
	imagesTimeout = 2 * time.Minute
)

// pressure is what the pods' host runs short of (kubelet: evictionManager). Nil: nobody is
// evicted for it.
type pressure struct {
	signals backend.Signals
	policy  eviction.Policy
	// conditions are those of the node that are true; nil before the first measurement.
	conditions atomic.Pointer[[]corev1.NodeConditionType]

	// Of the goroutine that measures.
	manager    *eviction.Manager
	unmeasured failing
}

// shortage is a measurement by which thresholds are met that are to be acted on.
type shortage struct {
	met          []eviction.Threshold
	observations eviction.Observations
	dedicated    bool // images stand on a file system of their own
	at           time.Time
}

func newPressure(signals backend.Signals, policy *eviction.Policy) *pressure {
	if signals == nil || policy == nil || len(policy.Thresholds) == 0 {
		return nil
	}
	return &pressure{signals: signals, policy: *policy, manager: eviction.NewManager(*policy)}
}

// Pressure returns the pressure conditions of the node that are true; false before the host
// was measured: then nothing is known of them.
func (l *Loop) Pressure() (conditions []corev1.NodeConditionType, known bool) {
	if l.pressure == nil {
		return nil, true
	}
	if c := l.pressure.conditions.Load(); c != nil {
		return *c, true
	}
	return nil, false
}

// measure asks the host. What is not known of it concludes nothing.
func (p *pressure) measure(ctx context.Context, l *Loop) (*backend.SignalFacts, eviction.Observations) {
	ctx, cancel := context.WithTimeout(ctx, signalsTimeout)
	defer cancel()
	facts, err := p.signals.Signals(ctx)
	if p.unmeasured.tell(ctx, err, "the pods' host is not measured, and no pod is evicted for it; trying again") {
		return nil, nil
	}
	var allocatable *resource.Quantity
	if q, ok := l.cfg.Node().Admission.Allocatable[corev1.ResourceMemory]; ok {
		allocatable = &q
	}
	return &facts, eviction.Observe(&facts, allocatable)
}

// judge measures and publishes the conditions; nil where there is nothing to act on.
func (p *pressure) judge(ctx context.Context, l *Loop) *shortage {
	if p == nil {
		return nil
	}
	facts, observations := p.measure(ctx, l)
	if facts == nil {
		return nil
	}
	verdict := p.manager.Judge(time.Now(), observations)
	if old := p.conditions.Swap(&verdict.Conditions); old == nil || !slices.Equal(*old, verdict.Conditions) {
		if old != nil || len(verdict.Conditions) > 0 {
			log.G(ctx).WithField("conditions", verdict.Conditions).Info("the pressure conditions of the node change")
		}
	}
	if len(verdict.Met) == 0 {
		return nil
	}
	return &shortage{verdict.Met, observations, facts.DedicatedImageFS, facts.Time}
}

// relieve makes room: by what nobody needs, else it evicts one pod.
func (l *Loop) relieve(ctx context.Context, s *shortage, usage map[types.UID]*backend.PodStats) []*worker {
	first := &s.met[0]
	l.nodeEvent(eviction.ReasonThresholdMet, eviction.AttemptMessage(first.Signal))
	if first.Signal.Reclaims(s.dedicated) && l.reclaimHost(ctx) {
		log.G(ctx).WithField("signal", first.Signal).Info("the host has room again, no pod is evicted")
		return nil
	}
	workers := map[types.UID]*worker{}
	var pods []eviction.Pod
	for _, w := range l.all() {
		if pod := w.evictable(); pod != nil {
			workers[pod.UID] = w
			pods = append(pods, eviction.Pod{Pod: pod, Stats: usage[pod.UID]})
		}
	}
	if len(pods) == 0 {
		log.G(ctx).WithField("signal", first.Signal).Warn("an eviction threshold is met, and there is no pod to evict")
		return nil
	}
	eviction.Rank(pods, first.Signal, s.dedicated)
	for i := range s.met {
		l.cfg.Metrics.StatsAged(s.met[i].Signal, time.Since(s.at))
	}
	victim := &pods[0]
	message, annotations := eviction.Message(victim, s.met, s.observations)
	w := workers[victim.UID]
	order := &plan.TerminationOrder{
		Deadline: time.Now().Add(l.softGrace(first, victim.Pod)), Message: message, Disrupted: true,
	}
	if w.evict(order, annotations) {
		l.cfg.Metrics.Evicted(first.Signal)
		log.G(ctx).WithFields(log.Fields{
			"pod": victim.Namespace + "/" + victim.Name, "uid": victim.UID, "signal": first.Signal,
		}).
			Info("evicting a pod, for its host runs short")
	}
	return []*worker{w}
}

// softGrace is what a pod gets to end: next to nothing for a hard threshold.
func (l *Loop) softGrace(t *eviction.Threshold, pod *corev1.Pod) time.Duration {
	if t.Hard() {
		return evictGrace
	}
	return max(evictGrace, min(l.pressure.policy.MaxPodGracePeriod, plan.Grace(pod)))
}

// reclaimHost removes what pods left that have ended, and the images that nobody uses. It is
// true where no threshold is met after that.
func (l *Loop) reclaimHost(ctx context.Context) bool {
	var ended []*worker
	for _, w := range l.all() {
		if pod, status, _ := w.snapshot(); pod != nil && plan.Terminal(status.Phase) && w.isOver() && !w.isDiscarded() {
			w.discard()
			ended = append(ended, w)
		}
	}
	l.awaitDiscarded(ctx, ended, cleanupTimeout)
	if l.garbage != nil {
		unused, cancel := context.WithTimeout(ctx, imagesTimeout)
		err := l.garbage.DeleteUnused(unused)
		cancel()
		if err != nil && ctx.Err() == nil {
			log.G(ctx).WithError(err).Warn("not all unused images were removed")
		}
	}
	facts, observations := l.pressure.measure(ctx, l)
	return facts != nil && l.pressure.manager.Relieved(observations)
}

func (l *Loop) nodeEvent(reason, message string) {
	if l.cfg.NodeEvent != nil {
		l.cfg.NodeEvent(corev1.EventTypeWarning, reason, message)
	}
}
