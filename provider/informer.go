package provider

import (
	"context"
	"fmt"
	"sync"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// NewPodInformer returns an informer of the pods that are bound to a node. It is
// not started; Node.Run runs it. It has no resync: a resync reports nothing
// new. managedFields are dropped on the way in, to save memory.
func NewPodInformer(client kubernetes.Interface, nodeName string) (cache.SharedIndexInformer, error) {
	informer := coreinformers.NewFilteredPodInformer(client, metav1.NamespaceAll, 0,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
		func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", nodeName).String()
		})
	if err := informer.SetTransform(dropManagedFields); err != nil {
		return nil, fmt.Errorf("configure pod informer: %w", err)
	}
	return informer, nil
}

// dropManagedFields returns a shallow copy without them. What it is given may be
// shared: the API server of a test hands out the objects that it holds.
func dropManagedFields(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.ManagedFields == nil {
		return obj, nil
	}
	light := *pod
	light.ManagedFields = nil
	return &light, nil
}

// newNodeInformer watches our own Node, so that its deletion and others' changes
// of it are seen at once.
func newNodeInformer(client kubernetes.Interface, nodeName string) cache.SharedIndexInformer {
	return coreinformers.NewFilteredNodeInformer(client, 0, cache.Indexers{},
		func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("metadata.name", nodeName).String()
		})
}

// podInformer shows our informer to the framework in the form that it wants.
type podInformer struct{ informer cache.SharedIndexInformer }

func (p podInformer) Informer() cache.SharedIndexInformer { return unwrapped{p.informer} }

func (p podInformer) Lister() corelisters.PodLister {
	return lightPods{corelisters.NewPodLister(p.informer.GetIndexer())}
}

// podEvents is our own handler on the pod informer. Unlike the framework's it
// understands tombstones, and it does not care what kind of change it is.
func podEvents(enqueue func(key string), gone func(key string)) cache.ResourceEventHandler {
	hint := func(obj any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			enqueue(key)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    hint,
		UpdateFunc: func(_, obj any) { hint(obj) },
		DeleteFunc: func(obj any) {
			if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
				gone(key)
			}
			hint(obj)
		},
	}
}

// firstRefusal remembers the first listing that was refused, so that a start
// with a credential that may not read pods ends with an error instead of waiting
// forever.
type firstRefusal struct {
	once sync.Once
	err  chan error
}

func newFirstRefusal() *firstRefusal { return &firstRefusal{err: make(chan error, 1)} }

// handle is a cache.WatchErrorHandlerWithContext.
func (f *firstRefusal) handle(ctx context.Context, r *cache.Reflector, err error) {
	if refused(err) {
		f.once.Do(func() { f.err <- err })
		log.G(ctx).WithError(err).Warn("watch refused by the API server; trying again")
		return
	}
	cache.DefaultWatchErrorHandler(ctx, r, err)
}

// wait returns true when synced reports true, false when the context ended
// first, or the refusal.
func (f *firstRefusal) wait(ctx context.Context, synced ...cache.InformerSynced) (bool, error) {
	waitCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan bool, 1)
	go func() { done <- cache.WaitForCacheSync(waitCtx.Done(), synced...) }()
	select {
	case err := <-f.err:
		cancel()
		<-done
		return false, err
	case ok := <-done:
		return ok, nil
	}
}

// ownNode is our Node as the informer holds it: nil and true when it is known
// not to be there, nil and false while nothing is known.
func ownNode(informer cache.SharedIndexInformer, name string) (*corev1.Node, bool) {
	if !informer.HasSynced() {
		return nil, false
	}
	// An informer's store never returns an error for a key.
	obj, ok, _ := informer.GetStore().GetByKey(name)
	if !ok {
		return nil, true
	}
	node, _ := obj.(*corev1.Node)
	return node, true
}
