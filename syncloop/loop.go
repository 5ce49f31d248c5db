package syncloop

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/admit"
	"github.com/burstlet/burstlet/syncloop/images"
	"github.com/burstlet/burstlet/syncloop/pleg"
	"github.com/burstlet/burstlet/syncloop/podsource"
)

// The kubelet's periods (syncFrequency, housekeepingPeriod).
const (
	syncPeriod         = time.Minute
	housekeepingPeriod = 2 * time.Second
	// relistHinted is the period of listings where hints tell of changes.
	relistHinted  = 5 * time.Second
	parallelPulls = 5
)

// Status is the writer of pod status, and the deleter of pods in the API.
type Status interface {
	// SetStatus gives the status of a pod that should be in the API.
	SetStatus(pod *corev1.Pod, status corev1.PodStatus)
	// Reclaimed says that nothing of a pod is left on the remote.
	Reclaimed(uid types.UID)
	// Observe tells what the API holds.
	Observe(pod *corev1.Pod)
	// Forget says that a pod is gone from the API.
	Forget(uid types.UID)
}

// Events tells users about pods, as record.EventRecorder does.
type Events interface {
	Eventf(pod *corev1.Pod, kind, reason, format string, args ...any)
}

// Config is what the engine works with. All fields are required but Metrics.
type Config struct {
	Backend backend.Backend
	Source  *podsource.Source
	Status  Status
	Events  Events
	// HostIPs returns the addresses of the pods' host; nil for none.
	HostIPs func() []string
	Metrics *Metrics
}

// Loop is the engine of one node.
type Loop struct {
	cfg     Config
	unit    Unit
	pleg    *pleg.PLEG
	admit   *admit.Judge
	images  *images.Puller
	started time.Time

	mu      sync.Mutex
	workers map[types.UID]*worker

	group sync.WaitGroup
	// The loop goroutine's own.
	listed   bool
	orphans  map[types.UID]uint64
	finished chan *worker
}

// New returns an engine that does nothing until Run.
func New(cfg Config) (*Loop, error) {
	b := cfg.Backend
	switch {
	case b.Pods == nil, b.Check == nil, b.Node == nil:
		return nil, fmt.Errorf("backend %q lacks Pods, Check or Node", b.Name)
	case cfg.Source == nil, cfg.Status == nil, cfg.Events == nil:
		return nil, fmt.Errorf("engine needs a pod source, a status writer and an event recorder")
	}
	l := &Loop{
		cfg: cfg, admit: admit.New(b.Check), started: time.Now(),
		workers: map[types.UID]*worker{}, orphans: map[types.UID]uint64{}, finished: make(chan *worker),
	}
	if l.cfg.Metrics == nil {
		l.cfg.Metrics = NewMetrics(nil)
	}
	if b.Containers == nil {
		l.unit = PodUnit
	}
	if b.Images != nil {
		l.images = images.New(b.Images, parallelPulls, b.Limits.Pull)
	}
	period := b.Limits.Relist
	if period == 0 && b.Events != nil {
		period = relistHinted
	}
	l.pleg = pleg.New(pleg.Config{
		Pods: b.Pods, Events: b.Events, Period: period, Observe: l.cfg.Metrics.relisted,
	})
	return l, nil
}

// Run works until the context ends. It leaves the remote's pods as they are.
func (l *Loop) Run(ctx context.Context) error {
	ctx = log.WithLogger(ctx, log.G(ctx).WithField("backend", l.cfg.Backend.Name))
	ctx, cancel := context.WithCancel(ctx)
	defer l.group.Wait()
	defer cancel()
	plegDone := make(chan error, 1)
	l.goWork(func() { plegDone <- l.pleg.Run(ctx) })
	sync := time.NewTicker(syncPeriod)
	defer sync.Stop()
	housekeeping := time.NewTicker(housekeepingPeriod)
	defer housekeeping.Stop()
	l.cfg.Source.TouchAll()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-plegDone:
			if ctx.Err() == nil {
				return fmt.Errorf("relisting ended: %w", err)
			}
		case <-l.cfg.Source.Changed():
			for _, change := range l.cfg.Source.Take() {
				l.handle(ctx, change)
			}
		case <-l.pleg.Changed():
			l.dispatch(l.pleg.Take())
		case w := <-l.finished:
			l.drop(w)
		case <-sync.C:
			l.pokeAll()
		case <-housekeeping.C:
			l.housekeep(ctx)
		}
	}
}

// goWork runs f in a goroutine that Run waits for.
func (l *Loop) goWork(f func()) { l.group.Go(f) }

// handle passes a pod change to its worker.
func (l *Loop) handle(ctx context.Context, change podsource.Change) {
	pod := change.Pod
	l.cfg.Metrics.change(change.Op)
	if change.Op == podsource.Remove {
		l.cfg.Status.Forget(pod.UID)
		if w := l.worker(pod.UID); w != nil {
			w.update(pod, true)
			return
		}
		l.startWorker(ctx, pod, backend.Ref{}).update(pod, true)
		return
	}
	l.cfg.Status.Observe(pod)
	if w := l.worker(pod.UID); w != nil {
		w.update(pod, false)
		return
	}
	l.startWorker(ctx, pod, backend.Ref{})
}

func (l *Loop) worker(uid types.UID) *worker {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.workers[uid]
}

// startWorker starts the worker of a pod, or of an orphan that only ref names.
func (l *Loop) startWorker(ctx context.Context, pod *corev1.Pod, ref backend.Ref) *worker {
	w := newWorker(l, pod, ref)
	l.mu.Lock()
	l.workers[w.ref.UID] = w
	l.mu.Unlock()
	l.goWork(func() {
		w.run(ctx)
		select {
		case l.finished <- w:
		case <-ctx.Done():
		}
	})
	return w
}

func (l *Loop) drop(w *worker) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.workers[w.ref.UID] == w {
		delete(l.workers, w.ref.UID)
	}
}

// dispatch wakes the workers of pods whose facts changed; the first complete
// listing wakes all.
func (l *Loop) dispatch(uids []types.UID) {
	if _, known := l.pleg.Get(""); known && !l.listed {
		l.listed = true
		l.pokeAll()
		return
	}
	for _, uid := range uids {
		if w := l.worker(uid); w != nil {
			w.poke()
		}
	}
}

func (l *Loop) pokeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.workers {
		w.poke()
	}
}

// housekeep ends pods on the remote that the API does not have. Nothing is
// judged before the pod source has synced and the remote was listed whole, and
// an orphan is one only when two complete listings showed it.
func (l *Loop) housekeep(ctx context.Context) {
	present, seq := l.pleg.Present()
	l.cfg.Metrics.running(l.count())
	if !l.cfg.Source.Synced() || seq == 0 {
		return
	}
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
			log.G(ctx).WithFields(log.Fields{"pod": ref.Namespace + "/" + ref.Name, "uid": uid}).
				Info("ending a pod that the API does not have")
			l.startWorker(ctx, nil, ref)
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

// executor returns what a pod's actions act with.
func (l *Loop) executor(pod *corev1.Pod) *executor {
	return &executor{backend: l.cfg.Backend, images: l.images, event: func(kind, reason, format string, args ...any) {
		if pod != nil {
			l.cfg.Events.Eventf(pod, kind, reason, format, args...)
		}
	}}
}
