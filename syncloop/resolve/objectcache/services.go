package objectcache

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// The Service that every pod hears of, whatever its namespace.
const (
	apiNamespace = metav1.NamespaceDefault
	apiService   = "kubernetes"
)

const byNamespace = cache.NamespaceIndex

// services are the cluster's Services. The Cache's lock guards them.
type services struct {
	index  cache.Indexer // nil: no pod needed them yet
	synced bool
	// lists are by namespace what pods there are told of, made when asked for.
	lists map[string][]*corev1.Service
}

// list returns the Services of the namespace and that of the API server, by name.
func (s *services) list(namespace string) (list []*corev1.Service, synced bool) {
	if !s.synced {
		return nil, false
	}
	list, ok := s.lists[namespace]
	if ok {
		return list, true
	}
	// The index was made with this indexer, and the key with this function.
	items, err := s.index.ByIndex(byNamespace, namespace)
	if err != nil {
		panic(err)
	}
	if namespace != apiNamespace {
		if item, exists, err := s.index.GetByKey(apiNamespace + "/" + apiService); err != nil {
			panic(err)
		} else if exists {
			items = append(items, item)
		}
	}
	for _, item := range items {
		list = append(list, item.(*corev1.Service))
	}
	slices.SortFunc(list, func(a, b *corev1.Service) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	s.lists[namespace] = list
	return list, true
}

// useServices starts the informer if it does not run yet. The lock is held.
func (c *Cache) useServices() {
	if c.services.index != nil {
		return
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.client.CoreV1().Services(metav1.NamespaceAll).List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.client.CoreV1().Services(metav1.NamespaceAll).Watch(ctx, o)
		},
	}
	informer := cache.NewSharedIndexInformerWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, c.client),
		&corev1.Service{}, cache.SharedIndexInformerOptions{
			Indexers: cache.Indexers{byNamespace: cache.MetaNamespaceIndexFunc},
		})
	c.services.index = informer.GetIndexer()
	c.services.lists = make(map[string][]*corev1.Service)
	c.start(func(ctx context.Context) { c.runServices(ctx, informer) })
}

func (c *Cache) runServices(ctx context.Context, informer cache.SharedIndexInformer) {
	if err := c.prepareServices(informer); err != nil {
		// It fails only for an informer that runs already.
		log.G(ctx).WithError(err).Error("services cannot be read")
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { informer.RunWithContext(ctx) })
	select {
	case <-ctx.Done():
		return
	case <-informer.HasSyncedChecker().Done():
	}
	c.mu.Lock()
	c.services.synced = true
	var waiting []types.UID
	for uid, e := range c.pods {
		if e.refs.Services {
			waiting = append(waiting, uid)
		}
	}
	c.mu.Unlock()
	c.notify(waiting...)
}

func (c *Cache) prepareServices(informer cache.SharedIndexInformer) error {
	// The default handler logs past our logger and sleeps without a context. The
	// reflector waits by itself, and so do the pods.
	var r retry
	errHandler := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		if ctx.Err() == nil && r.report() {
			log.G(ctx).WithError(err).Warn("services not read")
		}
	})
	_, errEvents := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.serviceChanged,
		UpdateFunc: func(_, now any) { c.serviceChanged(now) },
		DeleteFunc: c.serviceChanged,
	})
	return errors.Join(errHandler, errEvents, informer.SetTransform(trimService))
}

// serviceChanged drops the lists that hold the Service. Pods are not told: the
// environment of a container that runs does not change.
func (c *Cache) serviceChanged(item any) {
	if gone, ok := item.(cache.DeletedFinalStateUnknown); ok {
		item = gone.Obj
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := item.(*corev1.Service)
	if !ok || s.Namespace == apiNamespace && s.Name == apiService {
		clear(c.services.lists)
		return
	}
	delete(c.services.lists, s.Namespace)
}

// trimService leaves of a Service what an environment is made of.
func trimService(item any) (any, error) {
	s, ok := item.(*corev1.Service)
	if !ok {
		return item, nil
	}
	ports := slices.Clone(s.Spec.Ports)
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion,
			Labels: maps.Clone(s.Labels),
		},
		Spec: corev1.ServiceSpec{
			Type: s.Spec.Type, ClusterIP: s.Spec.ClusterIP, ClusterIPs: s.Spec.ClusterIPs, Ports: ports,
		},
	}, nil
}
