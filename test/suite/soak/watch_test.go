package soak

import (
	"context"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// leaseWatch notes the renewals of the nodes' leases.
type leaseWatch struct {
	mu       sync.Mutex
	renewals map[string][]time.Time
}

func (l *leaseWatch) watch(w *world) {
	w.Helper()
	l.renewals = map[string][]time.Time{}
	factory := informers.NewSharedInformerFactoryWithOptions(
		w.client, 0, informers.WithNamespace(corev1.NamespaceNodeLease),
	)
	note := func(obj any) {
		lease, ok := obj.(*coordinationv1.Lease)
		if !ok || lease.Spec.RenewTime == nil {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		all := l.renewals[lease.Name]
		if at := lease.Spec.RenewTime.Time; len(all) == 0 || at.After(all[len(all)-1]) {
			l.renewals[lease.Name] = append(all, at)
		}
	}
	w.handle(factory, factory.Coordination().V1().Leases().Informer(), cache.ResourceEventHandlerFuncs{
		AddFunc: note, UpdateFunc: func(_, obj any) { note(obj) },
	})
}

func (l *leaseWatch) of(node string, from time.Time) []time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.renewals[node]
	at, _ := slices.BinarySearchFunc(all, from, time.Time.Compare)
	return slices.Clone(all[at:])
}

// handle runs an informer until the test ends.
func (w *world) handle(
	factory informers.SharedInformerFactory, informer cache.SharedIndexInformer, handler cache.ResourceEventHandler,
) {
	w.Helper()
	_, err := informer.AddEventHandler(handler)
	w.must(err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	factory.StartWithContext(ctx)
	w.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	if !cache.WaitForCacheSync(w.Context().Done(), informer.HasSynced) {
		w.Fatal("nothing was listed")
	}
}

// life is what is known of a pod.
type life struct {
	node           string
	created, ready time.Time
	restarts       int32
	terminal, gone bool
}

// podWatch notes when pods are Ready and when they are gone.
type podWatch struct {
	mu   sync.Mutex
	pods map[string]*life // by name; names are used once
}

func (p *podWatch) watch(w *world) {
	w.Helper()
	p.pods = map[string]*life{}
	factory := informers.NewSharedInformerFactoryWithOptions(
		w.client, 0, informers.WithNamespace(namespace), informers.WithTransform(onlyStatus),
	)
	w.handle(factory, factory.Core().V1().Pods().Informer(), cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { p.note(obj, false) },
		UpdateFunc: func(_, obj any) { p.note(obj, false) },
		DeleteFunc: func(obj any) { p.note(obj, true) },
	})
}

// onlyStatus keeps of a pod what is looked at: some are of a megabyte.
func onlyStatus(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	kept := &corev1.Pod{Status: pod.Status}
	kept.Namespace, kept.Name, kept.UID, kept.ResourceVersion = pod.Namespace, pod.Name, pod.UID, pod.ResourceVersion
	return kept, nil
}

// create notes a pod that is about to be created.
func (p *podWatch) create(name, node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pods[name] = &life{node: node, created: time.Now()}
}

func (p *podWatch) note(obj any, gone bool) {
	if late, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = late.Obj
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.pods[pod.Name]
	if l == nil {
		return
	}
	l.gone = l.gone || gone
	l.terminal = pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	for i := range pod.Status.ContainerStatuses {
		l.restarts = max(l.restarts, pod.Status.ContainerStatuses[i].RestartCount)
	}
	if l.ready.IsZero() && isReady(pod) {
		l.ready = time.Now()
	}
}

// count is how many pods of a node fulfil something.
func (p *podWatch) count(node string, is func(*life) bool) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.pods {
		if l.node == node && is(l) {
			n++
		}
	}
	return n
}

// starts are the seconds from creation to Ready of the pods of a node that were created in
// a time, and how many of them never were Ready.
func (p *podWatch) starts(node string, from, to time.Time) (took []float64, never int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.pods {
		switch {
		case l.node != node || l.created.Before(from) || !l.created.Before(to):
		case l.ready.IsZero():
			never++
		default:
			took = append(took, l.ready.Sub(l.created).Seconds())
		}
	}
	return took, never
}
