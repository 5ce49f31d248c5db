package syncloop

import (
	"context"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/admit"
	"github.com/burstlet/burstlet/syncloop/eviction"
	"github.com/burstlet/burstlet/syncloop/metrics"
	"github.com/burstlet/burstlet/syncloop/plan"
	"github.com/burstlet/burstlet/syncloop/pleg"
)

// wakeSoonest is the least time between two decisions that nothing but time asks
// for.
const wakeSoonest = 10 * time.Millisecond

// panicRetry is the wait after a decision that panicked.
const panicRetry = 10 * time.Second

// inspectEvery is the pause between inspections of a pod whose facts were old.
const inspectEvery = time.Second

// eventRepeat is when an Event is recorded again about what stays as it is: the API
// server keeps it for an hour. A kubelet repeats it at each sync, of which client-go lets
// through one in 5 min for all that is told of a pod: two may stand, and leave room for
// news.
const eventRepeat = 10 * time.Minute

// workState is a worker's stage, for logs and for those who ask.
type workState int

const (
	syncing workState = iota
	terminating
	terminated
)

func (s workState) String() string {
	return [...]string{"syncing", "terminating", "terminated"}[s]
}

// worker owns one pod UID. Only the holder of its turn decides and acts; others leave
// what they have in its slot and ask for a turn.
type worker struct {
	loop *Loop
	ref  backend.Ref
	seen time.Time // when the pod was first seen
	// start is how long the pod takes to start.
	start metrics.PodStart

	// The slot: the latest pod, and whether the API no longer has it.
	mu      sync.Mutex
	turn    turn
	inbox   []func(context.Context)
	alarm   *time.Timer
	pod     *corev1.Pod
	removed bool
	// judged is true once the pod was admitted or not.
	judged    bool
	rejection *admit.Rejection
	refuseAt  time.Time
	// allocated is the pod with the resources that are allocated; the pod itself,
	// but while it asks for others: then realloc says what comes of that.
	allocated *corev1.Pod
	realloc   *reallocation
	// ordered is an order from outside to end the pod; evicted is true once there was
	// one because of what it takes of its host. discarded is true once nothing is left
	// there of a pod that was to be discarded. evictedFor are the annotations of the Event.
	ordered            *plan.TerminationOrder
	evicted, discarded bool
	evictedFor         map[string]string
	// Published for others.
	state    workState
	couldRun bool
	// over is true once nothing runs and the status that says so is handed on.
	over   bool
	status corev1.PodStatus
	facts  []backend.PodFacts

	// Owned by the turn holder; no lock.
	memory plan.Memory
	ready  bool
	// believed is the last record that could be the latest.
	believed pleg.Record
	minSeq   uint64
	// inspectAt is when the pod may be inspected again for newer facts.
	inspectAt time.Time
	batch     *batch
	hooks     map[plan.HookKey]context.CancelFunc
	recorded  map[plan.Event]time.Time
	sent      bool
	done      bool
	// released is true once nothing that the pod refers to is wanted any more.
	released bool
	// untrusted is true once tokens placed by an earlier life were given up.
	untrusted bool
	// told is true once the API had the pod, or something of it was live, in this life of the
	// process: what becomes of it is worth a line in the log.
	told bool
}

func newWorker(l *Loop, pod *corev1.Pod, ref backend.Ref) *worker {
	w := &worker{
		loop: l, ref: ref, pod: pod, allocated: pod, judged: pod == nil, couldRun: true, seen: time.Now(),
	}
	w.start.Began(pod)
	if pod != nil {
		w.ref = backend.Ref{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}
		w.memory.Status = pod.Status // only read, as all that the informer holds
		w.status = w.memory.Status
		w.memory.Try = plan.LaunchTryIn(&pod.Status)
	}
	if l.traits.Stale > 0 {
		w.memory.Known = map[string]plan.Progress{}
		w.memory.KnowStatus(l.started)
	}
	return w
}

// update leaves the latest pod; removed is true when it is gone from the API.
func (w *worker) update(pod *corev1.Pod, removed bool) {
	w.mu.Lock()
	w.pod, w.removed = pod, w.removed || removed
	w.mu.Unlock()
	w.poke()
}

// safeStep keeps one bad pod from taking the node down.
func (w *worker) safeStep(ctx context.Context) (wakeAt time.Time) {
	defer func() {
		if r := recover(); r != nil {
			log.G(ctx).WithFields(log.Fields{"panic": fmt.Sprint(r), "stack": string(debug.Stack())}).
				Error("deciding on a pod panicked, trying again")
			wakeAt = time.Now().Add(panicRetry)
		}
	}()
	return w.step(ctx)
}

// step decides once, reports the status, and begins the actions if none are
// under way and the facts are from after the last ones.
func (w *worker) step(ctx context.Context) time.Time {
	record, known := w.loop.pleg.Get(w.ref.UID)
	if !known || !w.isJudged() {
		return time.Time{} // the first complete listing wakes every worker
	}
	if !w.ready && !w.adoptVolumes(record.Facts) {
		return time.Time{} // and so does the first listing of volumes
	}
	fresh, again := w.believe(record)
	if !fresh && !again.IsZero() && !w.ready {
		return again
	}
	if !w.askResize(fresh) {
		return time.Time{} // who judges it wakes the worker
	}
	in := w.input(w.believed)
	w.told = w.told || in.Pod != nil || anyLive(in.Facts)
	w.takeOver(&in)
	p := plan.Decide(in)
	w.note(&in, &p, fresh)
	w.report(ctx, &in, &p, fresh)
	w.runHooks(ctx, &in, p.Hooks)
	if in.Pod != nil {
		w.loop.prober.Set(ctx, in.Pod, p.Probes)
	}
	if !fresh {
		return again // newer facts come by themselves
	}
	return w.act(ctx, &in, p, again)
}

// act does what a plan from fresh facts says, and returns when to decide again.
func (w *worker) act(ctx context.Context, in *plan.Input, p plan.Plan, again time.Time) time.Time {
	if p.Resized {
		w.resizeDone(ctx, in)
	}
	switch {
	case w.batch != nil:
		return again // its end comes by itself
	case p.Termination == nil && w.reallocate(ctx, in):
		return time.Time{} // it decides again at once
	case p.Reclaimed:
		w.reclaimed(ctx, in)
	case len(p.Actions) > 0:
		w.begin(ctx, in, p)
		return time.Time{}
	}
	if p.Inspect {
		p.Wake(w.inspect())
	}
	return p.WakeAt
}

// takeOver adopts, before the first decision, a pod that an earlier life of the
// process may have worked on.
func (w *worker) takeOver(in *plan.Input) {
	if w.ready {
		return
	}
	w.ready = true
	w.loop.cfg.Metrics.WorkerBegan(w.seen)
	if in.Pod != nil && !in.Pod.CreationTimestamp.After(w.loop.started) {
		w.memory.Adopt(in, w.loop.started)
		in.Memory = w.memory
	}
}

// believe takes a record over as what is known now, unless it can only be old;
// the time is then when to inspect the pod again. It is true for one from
// after the last action.
func (w *worker) believe(record pleg.Record) (fresh bool, again time.Time) {
	stale := w.loop.traits.Stale
	fresh = record.Seq >= w.minSeq
	if stale == 0 || record.Seq == w.believed.Seq {
		w.believed = record
		return fresh, time.Time{}
	}
	shown := plan.ProgressOf(record.Facts, time.Now())
	if w.memory.Behind(shown, record.At, stale) {
		return false, w.inspect()
	}
	w.believed, w.memory.Known = record, shown
	return fresh, time.Time{}
}

// inspect asks for newer facts, but not too often, and returns when to ask again.
func (w *worker) inspect() time.Time {
	if now := time.Now(); !now.Before(w.inspectAt) {
		w.loop.pleg.Enqueue(w.ref.UID)
		w.inspectAt = now.Add(inspectEvery)
	}
	return w.inspectAt
}

// note keeps the orders of a plan. An order to end the pod ends what is under way
// for its life, and what it refers to is wanted no longer.
func (w *worker) note(in *plan.Input, p *plan.Plan, fresh bool) {
	if fresh {
		w.memory.Termination = p.Termination
	} else { // an order holds at once; that the pod has ended, only new facts can say
		w.memory.Termination = plan.Merge(w.memory.Termination, plan.Ordered(in))
	}
	w.memory.Terminations = p.Terminations
	w.memory.Forget(in.Facts)
	if p.Untrusted && !w.untrusted {
		w.untrusted = true
		w.loop.cfg.Objects.Adopt(in.Pod, nil)
	}
	if w.memory.Termination == nil {
		return
	}
	if !w.released {
		w.released = true
		w.loop.cfg.Objects.Forget(w.ref.UID)
	}
	if w.batch != nil && !w.batch.terminates {
		w.batch.terminates = true
		w.batch.soft()
	}
}

// adoptVolumes takes over the volumes that an earlier life of the process placed, or
// gave to an attempt with its launch; false while they are not known.
func (w *worker) adoptVolumes(facts []backend.PodFacts) bool {
	placed, listed := w.loop.volumes.take(w.ref.UID)
	if !listed {
		return false
	}
	at := map[string]time.Time{}
	for _, v := range placed {
		w.memory.AdoptVolume(v)
		at[v.Name] = v.PlacedAt
	}
	w.mu.Lock()
	pod := w.pod
	w.mu.Unlock()
	if n := len(facts); pod != nil && w.loop.traits.Refreshes && n > 0 && facts[n-1].Live {
		for i := range pod.Spec.Volumes {
			at[pod.Spec.Volumes[i].Name] = facts[n-1].CreatedAt
		}
	}
	if len(at) > 0 && pod != nil && pod.DeletionTimestamp == nil && !plan.Terminal(pod.Status.Phase) {
		w.loop.cfg.Objects.Adopt(pod, at)
	}
	return true
}

// input gathers what the decision depends on. Others are asked without the lock.
func (w *worker) input(record pleg.Record) plan.Input {
	l := w.loop
	in := plan.Input{
		Traits: l.traits, Ref: w.ref, Facts: record.Facts, FactsAt: record.At, HostIPs: l.hostIPs(), Memory: w.memory,
		VirtualKubeletEvents: l.cfg.VirtualKubeletEvents,
	}
	w.mu.Lock()
	in.Pod, in.Resize = w.podNow()
	in.Removed, in.Rejection, in.RefuseAt = w.removed, w.rejection, w.refuseAt
	in.Order = w.ordered
	w.facts = record.Facts
	w.mu.Unlock()
	if in.Pod != nil {
		in.Probes = l.prober.Results(in.Pod.UID)
		if w.wants(&in) {
			l.cfg.Objects.Set(in.Pod)
			in.Objects = l.cfg.Objects.Objects(in.Pod)
		}
		in.Refused = l.refusedEphemerals(in.Pod)
		node := l.cfg.Node()
		in.Node, in.NetworkProblem = node.Cluster, node.NetworkProblem
		in.Node.EphemeralVolumes = l.traits.EphemeralVolumes
	}
	in.Now = time.Now()
	return in
}

// wants is true for a pod that lives, and so needs what it refers to.
func (w *worker) wants(in *plan.Input) bool {
	return !w.released && w.memory.Termination == nil && in.Rejection == nil && !in.Removed &&
		in.Pod.DeletionTimestamp == nil && !plan.Terminal(w.memory.Status.Phase)
}

// report publishes what the pod is and hands a changed status on. Until facts
// are from after the last action, what they do not show is no news: a container
// just started is not one that vanished.
func (w *worker) report(ctx context.Context, in *plan.Input, p *plan.Plan, fresh bool) {
	couldRun := p.CouldRun || !fresh || w.batch != nil && w.batch.makes
	state := syncing
	if w.memory.Termination != nil {
		state = terminating
		if !couldRun {
			state = terminated
		}
	}
	w.mu.Lock()
	from, ranBefore := w.state, w.couldRun
	w.state, w.couldRun = max(w.state, state), couldRun
	to := w.state
	w.mu.Unlock()
	if to == terminated && from != to {
		w.loop.vacate(w.ref.UID)
		w.loop.retryResizes(triggerPodTerminated)
	}
	defer w.setOver(!couldRun, fresh, p)
	if from != to {
		log.G(ctx).WithFields(log.Fields{"from": from.String(), "to": to.String()}).Log(w.level(), "pod changes state")
	}
	if in.Pod == nil || !fresh {
		return
	}
	w.recordStarts(in)
	w.recordChanges(in.Pod, &p.Status)
	w.recordResizes(in, &p.Status)
	w.recordNew(in.Pod, p.Events)
	if w.sent && ranBefore == couldRun && reflect.DeepEqual(w.memory.Status, p.Status) {
		return // and the old one stays: it is the one that others hold
	}
	w.loop.cfg.Metrics.Reported(w.seen, w.memory.Status.Phase, p.Status.Phase)
	w.memory.Status, w.sent = p.Status, true
	w.mu.Lock()
	w.status = p.Status
	w.mu.Unlock()
	if !in.Removed {
		w.loop.cfg.Status.SetStatus(in.Pod, p.Status)
	}
}

// recordChanges records Events for changes of status that no action records.
func (w *worker) recordChanges(pod *corev1.Pod, now *corev1.PodStatus) {
	old := w.memory.Status
	switch {
	case old.Reason == now.Reason:
	case now.Reason == plan.ReasonDeadlineExceeded:
		w.loop.cfg.event(pod, corev1.EventTypeNormal, now.Reason, now.Message)
	case now.Reason == eviction.Reason: // one that was not admitted was told of
		evicted, annotations := w.isEvicted()
		byHost := plan.Evicted(w.believed.Facts)
		if byHost != nil && !evicted {
			w.loop.cfg.Metrics.Evicted(eviction.Signal(byHost.Limit))
		}
		if byHost != nil || evicted {
			w.loop.cfg.Events.Annotated(pod, annotations, corev1.EventTypeWarning, now.Reason, now.Message)
		}
	}
	for _, s := range plan.OOMEvents(pod, &old, now) {
		w.loop.cfg.Events.Event(pod, s.Container, s.Kind, s.Reason, s.Message)
	}
	backsOff := func(statuses []corev1.ContainerStatus, name string) bool {
		return slices.ContainsFunc(statuses, func(s corev1.ContainerStatus) bool {
			return s.Name == name && s.State.Waiting != nil && s.State.Waiting.Reason == plan.ReasonCrashLoopBackOff
		})
	}
	for _, pair := range [][2][]corev1.ContainerStatus{
		{old.InitContainerStatuses, now.InitContainerStatuses}, {old.ContainerStatuses, now.ContainerStatuses},
	} {
		for _, s := range pair[1] {
			if backsOff(pair[1], s.Name) && !backsOff(pair[0], s.Name) {
				w.loop.cfg.Events.Event(pod, s.Name, corev1.EventTypeWarning, "BackOff", fmt.Sprintf(
					"Back-off restarting failed container %s in pod %s_%s(%s)", s.Name, pod.Name, pod.Namespace, pod.UID))
			}
		}
	}
}

// recordStarts records Events for containers that the remote has started.
func (w *worker) recordStarts(in *plan.Input) {
	for _, s := range w.memory.StartEvents(in) {
		w.loop.cfg.Events.Event(in.Pod, s.Container, s.Kind, s.Reason, s.Message)
	}
}

// recordNew records the Events that the plan holds now and did not hold before, and
// what stays so again after a while.
func (w *worker) recordNew(pod *corev1.Pod, events []plan.Event) {
	if len(events) == 0 {
		w.recorded = nil
		return
	}
	recorded := make(map[plan.Event]time.Time, len(events))
	for _, s := range events {
		at, told := w.recorded[s]
		if _, twice := recorded[s]; !twice && (!told || time.Since(at) >= eventRepeat) {
			at = time.Now()
			w.loop.cfg.Events.Event(pod, s.Container, s.Kind, s.Reason, s.Message)
		}
		recorded[s] = at
	}
	w.recorded = recorded
}

// reclaimed reports that nothing is left on the remote. A pod that is gone from
// the API as well no longer needs its worker.
func (w *worker) reclaimed(ctx context.Context, in *plan.Input) {
	if in.Pod != nil && !in.Removed {
		w.loop.cfg.Status.Reclaimed(in.Pod.UID)
		return
	}
	if len(w.hooks) > 0 {
		return // they were ended with their containers, and users are still to be told: each brings a turn
	}
	log.G(ctx).Log(w.level(), "pod is gone from the API and the remote")
	w.done = true
}

// level is that of the log lines about what becomes of the pod. A remote may go on showing
// attempts that have ended, such as ECS for an hour: a process that starts then has no news of
// pods that were gone before.
func (w *worker) level() log.Level { return levelOf(w.told) }

func levelOf(news bool) log.Level {
	if news {
		return log.InfoLevel
	}
	return log.DebugLevel
}

func anyLive(facts []backend.PodFacts) bool {
	return slices.ContainsFunc(facts, func(f backend.PodFacts) bool { return f.Live })
}

// view for others.
func (w *worker) snapshot() (*corev1.Pod, corev1.PodStatus, []backend.PodFacts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pod, w.status, w.facts
}

// setOver notes that nothing of the pod runs, and that nothing is left of one that was to be
// discarded.
func (w *worker) setOver(over, fresh bool, p *plan.Plan) {
	discarded := p.Discarded && fresh
	w.mu.Lock()
	ended := over && !w.over || discarded && !w.discarded
	w.over, w.discarded = over, w.discarded || discarded
	w.mu.Unlock()
	if ended {
		w.loop.ended.happened()
	}
}

func (w *worker) isOver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over
}

// isDiscarded is true once nothing is left on the host of a pod that was to be discarded; of
// one that is the unit of restart, which has no host to share, once it has ended.
func (w *worker) isDiscarded() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.discarded || w.over && w.loop.traits.PodUnit()
}

// isEvicted says whether the pod is evicted, and what the Event about it is annotated with.
func (w *worker) isEvicted() (bool, map[string]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.evicted, w.evictedFor
}

// evictable is a running pod that is not critical; else nil.
func (w *worker) evictable() *corev1.Pod {
	if pod := w.running(); pod != nil && !backend.Critical(pod) {
		return pod
	}
	return nil
}

// running is the pod with the resources that it is allocated, if it was admitted and has not
// ended (kubelet: filterOutInactivePods); else nil.
func (w *worker) running() *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.pod == nil, !w.judged, w.rejection != nil, w.state == terminated:
		return nil
	case plan.Terminal(w.status.Phase) && w.state != terminating:
		return nil
	case w.allocated == nil:
		return w.pod
	}
	return w.allocated
}

func (w *worker) couldBeRunning() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.couldRun
}

// judge admits the pod, or notes why not and when to fail it.
func (w *worker) judge(rejection *admit.Rejection, at time.Time) {
	w.mu.Lock()
	w.judged, w.rejection, w.refuseAt = true, rejection, at
	w.mu.Unlock()
	w.poke()
}

func (w *worker) isJudged() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.judged
}
