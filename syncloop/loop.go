package syncloop

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/admit"
	"github.com/burstlet/burstlet/syncloop/eviction"
	"github.com/burstlet/burstlet/syncloop/execute"
	"github.com/burstlet/burstlet/syncloop/hooks"
	"github.com/burstlet/burstlet/syncloop/imagegc"
	"github.com/burstlet/burstlet/syncloop/images"
	"github.com/burstlet/burstlet/syncloop/metrics"
	"github.com/burstlet/burstlet/syncloop/pleg"
	"github.com/burstlet/burstlet/syncloop/podsource"
	"github.com/burstlet/burstlet/syncloop/prober"
	"github.com/burstlet/burstlet/syncloop/resolve"
	"github.com/burstlet/burstlet/syncloop/streams"
	"github.com/burstlet/burstlet/syncloop/volumes"
)

// The kubelet's periods (syncFrequency, housekeepingPeriod).
const (
	syncPeriod         = time.Minute
	housekeepingPeriod = 2 * time.Second
	// relistHinted is the period of listings where hints report changes.
	relistHinted = 5 * time.Second
)

// Status is the writer of pod status, and the deleter of pods in the API.
type Status interface {
	// SetStatus gives the status of a pod that should be in the API.
	SetStatus(pod *corev1.Pod, status corev1.PodStatus)
	// Reclaimed says that nothing of a pod is left on the remote.
	Reclaimed(uid types.UID)
	// Observe passes on what the API holds.
	Observe(pod *corev1.Pod)
	// Forget says that a pod is gone from the API.
	Forget(uid types.UID)
}

// Events records Events about pods.
type Events interface {
	// Event records one about a pod, or about the container of it that is named.
	Event(pod *corev1.Pod, container, kind, reason, message string)
	// Annotated records one about a pod, with annotations of its own.
	Annotated(pod *corev1.Pod, annotations map[string]string, kind, reason, message string)
}

// Objects keeps what pods refer to: ConfigMaps, Secrets, tokens, claims,
// Services. When something of a pod changes it calls Loop.Poke.
type Objects interface {
	// Set keeps what the pod refers to from now on; Forget drops it.
	Set(pod *corev1.Pod)
	Forget(uid types.UID)
	// Adopt passes on when the pod's volumes were last placed, by name.
	Adopt(pod *corev1.Pod, placedAt map[string]time.Time)
	// Objects returns what is known now; it is cheap.
	Objects(pod *corev1.Pod) resolve.Objects
}

// Node is what a node is to its pods. It is only read.
type Node struct {
	// Admission is what pods are judged by.
	Admission admit.Node
	// Cluster is what pods may learn of their node and cluster.
	Cluster resolve.Node
	// NetworkProblem says why pods cannot get an address now; empty if they can.
	NetworkProblem string
}

// Config is what the engine works with. All fields are required but the metrics.
type Config struct {
	Backend backend.Backend
	Source  *podsource.Source
	Status  Status
	Events  Events
	// Objects is where what pods refer to comes from.
	Objects Objects
	// Node returns what the node is now.
	Node func() Node
	// HostIPs returns the addresses of the pods' host; nil for none.
	HostIPs func() []string
	// Pulls is how many images are pulled at once.
	Pulls int
	// NodeLogins has the node's own logins for images; nil: none.
	NodeLogins images.NodeLogins
	// ImageGC says when images that nobody uses are removed; nil: never.
	ImageGC *imagegc.Policy
	// Eviction says when pods are evicted for what their host runs short of; nil, or a
	// backend without Signals: never.
	Eviction *eviction.Policy
	// Shutdown is how long pods have to end when their host shuts down, in ascending order
	// of the groups' priorities; empty, or a backend without Shutdown: nobody looks.
	Shutdown []ShutdownGrace
	// ShuttingDown is told when the host begins to shut down, before the pods end, and when
	// it no longer does; it must not block. Nil: nobody is told.
	ShuttingDown func(begun bool)
	// NodeEvent records an Event about the node; nil records none.
	NodeEvent func(kind, reason, message string)
	Metrics   *metrics.Set
	// ProbeMetrics count the probes; nil counts nothing.
	ProbeMetrics *prober.Metrics
	// VirtualKubeletEvents adds virtual-kubelet's own Events about missing
	// references of an environment (resolve.LackEvents) to the kubelet's.
	VirtualKubeletEvents bool
}

func (c Config) event(pod *corev1.Pod, kind, reason, message string) {
	c.Events.Event(pod, "", kind, reason, message)
}

// Loop is the engine of one node.
type Loop struct {
	// Server opens what users ask of the containers.
	*streams.Server
	cfg      Config
	traits   backend.Traits // the backend's
	pleg     *pleg.PLEG
	admitted *admit.AdmittedPods
	images   *images.Puller
	garbage  *imagegc.Collector // nil where no image is ever garbage
	prober   *prober.Manager
	hooks    *hooks.Runner
	volumes  *placedVolumes
	resizes  resizes
	started  time.Time
	// closing is true once the node shuts down; ended signals each pod in which
	// nothing runs any more.
	closing atomic.Bool
	ended   signal

	stats statsCache
	// pressure is nil where no pod is evicted for its host's sake.
	pressure *pressure
	// unmeasured is of the goroutine that evicts pods.
	unmeasured failing

	looped atomic.Pointer[time.Time]

	mu      sync.Mutex
	workers map[types.UID]*worker

	group sync.WaitGroup
	// judging is held while those that wait are judged, one after the other.
	judging sync.Mutex
	// vacated is signalled when an admitted pod no longer needs its room.
	vacated chan struct{}
	// remoteKnown is reached once the remote was listed whole, podsKnown once the API's pods
	// have workers.
	remoteKnown, podsKnown milestone
	// The loop goroutine's own.
	// applicants are the pods that were not judged yet.
	applicants map[types.UID]*applicant
	kept       uint64 // the listing that was last searched for orphans
	orphans    map[types.UID]uint64
	finished   chan *worker
	turns      *turns
}

// New returns an engine that does nothing until Run.
func New(cfg Config) (*Loop, error) {
	b := cfg.Backend
	switch {
	case b.Pods == nil, b.Check == nil, b.Node == nil:
		return nil, fmt.Errorf("backend %q lacks Pods, Check or Node", b.Name)
	case cfg.Source == nil, cfg.Status == nil, cfg.Events == nil, cfg.Objects == nil, cfg.Node == nil:
		return nil, fmt.Errorf("engine needs a pod source, a status writer, an event recorder, objects and a node")
	}
	l := &Loop{
		cfg: cfg, traits: b.Traits(), admitted: admit.NewAdmittedPods(b.Check, backend.CheckFunc(volumes.Unsupported)),
		started: time.Now(),
		hooks:   hooks.New(hooks.Config{Exec: b.Exec, Dial: b.Dial, Event: cfg.event}),
		volumes: newPlacedVolumes(b.Files == nil),
		vacated: make(chan struct{}, 1), remoteKnown: make(milestone), podsKnown: make(milestone),
		applicants: map[types.UID]*applicant{},
		workers:    map[types.UID]*worker{}, orphans: map[types.UID]uint64{}, finished: make(chan *worker), turns: newTurns(),
	}
	l.Server = streams.New(b, l.named)
	if l.cfg.Metrics == nil {
		l.cfg.Metrics = metrics.New(nil)
	}
	l.cfg.Metrics.Watch(metrics.Watched{Pods: l.measured, Waiting: l.turns.len, LastRelist: l.LastRelist})
	if b.Images != nil {
		l.images = images.New(b.Images, b.PullRecords, cfg.Pulls, b.Limits.Pull).WithNodeLogins(cfg.NodeLogins)
	}
	l.garbage = l.newCollector()
	l.pressure = newPressure(b.Signals, cfg.Eviction)
	l.prober = prober.New(prober.Config{
		Exec: b.Exec, Dial: b.Dial, Reach: l.reach, Linked: b.Links != nil, Changed: l.Poke, Event: cfg.Events.Event,
		Metrics: cfg.ProbeMetrics,
	})
	period := b.Limits.Relist
	if period == 0 && b.Events != nil {
		period = relistHinted
	}
	l.pleg = pleg.New(pleg.Config{
		Pods: b.Pods, Events: b.Events, Period: period, Observe: l.cfg.Metrics.Relisted,
	})
	return l, nil
}

// reach asks the remote about a pod, only to hear from it.
func (l *Loop) reach(ctx context.Context, uid types.UID) error {
	_, err := l.cfg.Backend.Pods.Inspect(ctx, []types.UID{uid})
	return err
}

// Run works until the context ends. It leaves the remote's pods as they are.
func (l *Loop) Run(ctx context.Context) error {
	ctx = log.WithLogger(ctx, log.G(ctx).WithField("backend", l.cfg.Backend.Name))
	ctx, cancel := context.WithCancel(ctx)
	defer l.sleep()
	defer l.prober.Wait() // after the workers, which begin probes
	defer l.group.Wait()
	defer cancel()
	for range deciders() {
		l.goWork(func() { l.giveTurns(ctx) })
	}
	plegDone := make(chan error, 1)
	l.goWork(func() { plegDone <- l.pleg.Run(ctx) })
	volumes := make(chan []backend.VolumeFacts)
	if files := l.cfg.Backend.Files; files != nil {
		l.goWork(func() { listVolumes(ctx, files, volumes) })
	}
	l.watchDisk(ctx)
	l.watchHost(ctx)
	l.watchOOMs(ctx)
	sync := time.NewTicker(syncPeriod)
	defer sync.Stop()
	housekeeping := time.NewTicker(housekeepingPeriod)
	defer housekeeping.Stop()
	l.cfg.Source.EnqueueAll()
	for {
		l.tick()
		select {
		case <-ctx.Done():
			return nil
		case err := <-plegDone:
			if ctx.Err() == nil {
				return fmt.Errorf("relisting ended: %w", err)
			}
		case <-l.cfg.Source.Changed():
			l.takeChanges(ctx)
		case <-l.pleg.Changed():
			l.dispatch(l.pleg.Take())
		case facts := <-volumes:
			l.volumesListed(ctx, facts)
		case w := <-l.finished:
			l.drop(w)
		case <-l.vacated:
			l.judgeAll()
		case <-sync.C:
			l.retryResizes(triggerPeriodic)
			l.pokeAll()
		case <-housekeeping.C:
			l.housekeep(ctx)
		}
	}
}

// goWork runs f in a goroutine that Run waits for.
func (l *Loop) goWork(f func()) { l.group.Go(f) }

// takeChanges hands what changed of the pods to their workers.
func (l *Loop) takeChanges(ctx context.Context) {
	synced := l.cfg.Source.Synced()
	for _, change := range l.cfg.Source.Take() {
		l.handle(ctx, change)
	}
	if synced && !l.podsKnown.reached() {
		close(l.podsKnown)
	}
	l.judgeAll()
}

// handle passes a pod change to its worker.
func (l *Loop) handle(ctx context.Context, change podsource.Change) {
	pod := change.Pod
	l.cfg.Metrics.Change(change.Op)
	if change.Op == podsource.Remove {
		l.cfg.Status.Forget(pod.UID)
		l.admitted.Leave(pod.UID)
		if w := l.worker(pod.UID); w != nil {
			w.update(pod, true)
			return
		}
		w := l.startWorker(pod, backend.Ref{})
		w.judge(nil, time.Time{}) // it is only to be ended
		w.update(pod, true)
		return
	}
	l.cfg.Status.Observe(pod)
	if w := l.worker(pod.UID); w != nil {
		l.cfg.Metrics.Observed(&w.start, pod, time.Now())
		w.update(pod, false)
		return
	}
	log.G(ctx).WithFields(log.Fields{"pod": pod.Namespace + "/" + pod.Name, "uid": pod.UID}).Info("pod added")
	w := l.startWorker(pod, backend.Ref{})
	l.applicants[pod.UID] = &applicant{worker: w}
}

// refusedEphemerals says which ephemeral containers cannot be honoured, and why.
func (l *Loop) refusedEphemerals(pod *corev1.Pod) map[string]string {
	if len(pod.Spec.EphemeralContainers) == 0 {
		return nil
	}
	refused := map[string]string{}
	refusals := l.cfg.Backend.Check.Check(pod)
	for i, c := range pod.Spec.EphemeralContainers {
		at := fmt.Sprintf("spec.ephemeralContainers[%d]", i)
		if l.traits.PodUnit() {
			refused[c.Name] = at + ": no container can be added to a running pod on this node"
		}
		for _, r := range refusals {
			if strings.HasPrefix(r.Field, at) {
				refused[c.Name] = r.Field + ": " + r.Why
			}
		}
	}
	return refused
}

func (l *Loop) worker(uid types.UID) *worker {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.workers[uid]
}

// startWorker starts the worker of a pod, or of an orphan that only ref names.
func (l *Loop) startWorker(pod *corev1.Pod, ref backend.Ref) *worker {
	w := newWorker(l, pod, ref)
	l.mu.Lock()
	l.workers[w.ref.UID] = w
	l.mu.Unlock()
	w.poke()
	return w
}

func (l *Loop) drop(w *worker) {
	defer l.retryResizes(triggerPodsRemoved) // without the lock
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.workers[w.ref.UID] == w {
		delete(l.workers, w.ref.UID)
	}
	l.prober.Forget(w.ref.UID)
	l.cfg.Objects.Forget(w.ref.UID)
	delete(l.applicants, w.ref.UID)
	l.vacate(w.ref.UID)
	l.cfg.Source.Ended(w.ref.Namespace+"/"+w.ref.Name, w.ref.UID)
}

// Poke makes the worker of a pod decide again: something outside it changed.
func (l *Loop) Poke(uid types.UID) {
	if w := l.worker(uid); w != nil {
		w.poke()
	}
}

// dispatch wakes the workers of pods whose facts changed; the first complete
// listing wakes all.
func (l *Loop) dispatch(uids []types.UID) {
	if _, known := l.pleg.Get(""); known && !l.remoteKnown.reached() {
		close(l.remoteKnown)
		l.judgeAll()
		l.openResizes()
		l.pokeAll()
		return
	}
	for _, uid := range uids {
		l.Poke(uid)
	}
}

func (l *Loop) pokeAll() {
	for _, w := range l.all() {
		w.poke()
	}
}

// sleep stops the alarms of all workers.
func (l *Loop) sleep() {
	for _, w := range l.all() {
		w.sleep()
	}
}

// all returns the workers that there are now.
func (l *Loop) all() []*worker {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.workers))
}

// housekeep ends pods on the remote that the API does not have. Nothing is
// judged before the pod source has synced and the remote was listed whole, and
// an orphan is one only when two complete listings showed it.
func (l *Loop) housekeep(ctx context.Context) {
	l.cfg.Metrics.Running(l.count())
	l.judgeAll() // the node may be known by now
	if !l.cfg.Source.Synced() || l.pleg.Listed() == l.kept {
		return // nor is there anything new since the last time
	}
	if l.garbage != nil {
		l.garbage.Ready()
	}
	present, seq := l.pleg.Present()
	l.kept = seq
	for uid := range l.orphans {
		if _, ok := present[uid]; !ok || l.worker(uid) != nil {
			delete(l.orphans, uid)
		}
	}
	for uid, ref := range present {
		if l.worker(uid) != nil {
			continue
		}
		first, seen := l.orphans[uid]
		switch {
		case !seen:
			l.orphans[uid] = seq
		case seq > first:
			delete(l.orphans, uid)
			record, _ := l.pleg.Get(uid)
			log.G(ctx).WithFields(log.Fields{"pod": ref.Namespace + "/" + ref.Name, "uid": uid}).
				Log(levelOf(anyLive(record.Facts)), "ending a pod that the API does not have")
			l.startWorker(nil, ref)
		}
	}
}

func (l *Loop) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.workers)
}

func (l *Loop) hostIPs() []string {
	if l.cfg.HostIPs == nil {
		return nil
	}
	return l.cfg.HostIPs()
}

// executor returns what acts for a pod.
func (l *Loop) executor(uid types.UID, pod *corev1.Pod) *execute.Runner {
	return &execute.Runner{
		Backend: l.cfg.Backend, Images: l.images, Full: l.full, Resized: l.cfg.Metrics.Resizes.Resized,
		Hold: func() { l.pleg.Hold(uid) },
		Record: func(container, kind, reason, message string) {
			if pod != nil {
				l.cfg.Events.Event(pod, container, kind, reason, message)
			}
		},
	}
}
