package objectcache

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/burstlet/burstlet/syncloop/resolve"
)

// kind is how objects of one kind are read.
type kind[T metav1.Object] struct {
	name string // in the kubelet's errors
	// list returns the objects and the version of the list.
	list      func(ctx context.Context, namespace string, o metav1.ListOptions) ([]T, string, error)
	watch     func(ctx context.Context, namespace string, o metav1.ListOptions) (watch.Interface, error)
	immutable func(T) bool
}

func configMapKind(client kubernetes.Interface) kind[*corev1.ConfigMap] {
	return kind[*corev1.ConfigMap]{
		name: "configmap",
		list: func(ctx context.Context, ns string, o metav1.ListOptions) ([]*corev1.ConfigMap, string, error) {
			l, err := client.CoreV1().ConfigMaps(ns).List(ctx, o)
			if err != nil {
				return nil, "", err
			}
			return pointers(l.Items), l.ResourceVersion, nil
		},
		watch: func(ctx context.Context, ns string, o metav1.ListOptions) (watch.Interface, error) {
			return client.CoreV1().ConfigMaps(ns).Watch(ctx, o)
		},
		immutable: func(m *corev1.ConfigMap) bool { return m.Immutable != nil && *m.Immutable },
	}
}

func secretKind(client kubernetes.Interface) kind[*corev1.Secret] {
	return kind[*corev1.Secret]{
		name: "secret",
		list: func(ctx context.Context, ns string, o metav1.ListOptions) ([]*corev1.Secret, string, error) {
			l, err := client.CoreV1().Secrets(ns).List(ctx, o)
			if err != nil {
				return nil, "", err
			}
			return pointers(l.Items), l.ResourceVersion, nil
		},
		watch: func(ctx context.Context, ns string, o metav1.ListOptions) (watch.Interface, error) {
			return client.CoreV1().Secrets(ns).Watch(ctx, o)
		},
		immutable: func(s *corev1.Secret) bool { return s.Immutable != nil && *s.Immutable },
	}
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}

// watched holds the objects of one kind that pods refer to. The Cache's lock
// guards it.
type watched[T metav1.Object] struct {
	cache   *Cache
	kind    kind[T]
	objects map[types.NamespacedName]*object[T]
}

// object is one object, or the lack of it.
type object[T metav1.Object] struct {
	key types.NamespacedName
	// users are the pods that refer to it, each with the least look that it
	// trusts: an immutable object that was looked at before the pod came may have
	// been made anew since.
	users map[types.UID]uint64
	job   *job
	// following is false once the watch was ended because the object is immutable.
	following bool
	// wanted is the newest look that was asked for, looked the newest one done.
	wanted, looked uint64
	exists         bool
	value          T     // the newest seen, if exists
	err            error // why it could not be read the last time, if pods are to know
}

func newWatched[T metav1.Object](c *Cache, k kind[T]) *watched[T] {
	return &watched[T]{cache: c, kind: k, objects: make(map[types.NamespacedName]*object[T])}
}

// use says that the pod refers to the names after, no longer to those before.
func (w *watched[T]) use(e *podEntry, before, after []string) {
	difference(before, after,
		func(name string) { w.release(e, name) },
		func(name string) { w.acquire(e, name) })
}

func (w *watched[T]) acquire(e *podEntry, name string) {
	key := types.NamespacedName{Namespace: e.pod.Namespace, Name: name}
	o := w.objects[key]
	switch {
	case o == nil:
		o = &object[T]{key: key, users: make(map[types.UID]uint64), wanted: 1}
		w.objects[key] = o
		w.follow(o)
	case !o.following:
		o.wanted++
		w.follow(o)
	case o.exists && w.kind.immutable(o.value):
		o.wanted++ // the look that is under way may be too old
	}
	o.users[e.pod.UID] = o.wanted
}

func (w *watched[T]) release(e *podEntry, name string) {
	key := types.NamespacedName{Namespace: e.pod.Namespace, Name: name}
	o := w.objects[key]
	delete(o.users, e.pod.UID)
	if len(o.users) == 0 {
		o.job.end()
		delete(w.objects, key)
	}
}

func (w *watched[T]) follow(o *object[T]) {
	o.following = true
	f := follower[T]{w: w, o: o}
	o.job = w.cache.start(f.run)
}

// snapshot is what is known of these names for the pod.
func (w *watched[T]) snapshot(e *podEntry, names []string) map[string]resolve.Object[T] {
	if len(names) == 0 {
		return nil
	}
	out := make(map[string]resolve.Object[T], len(names))
	for _, name := range names {
		o := w.objects[types.NamespacedName{Namespace: e.pod.Namespace, Name: name}]
		if known, ok := w.known(o, o.users[e.pod.UID]); ok {
			out[name] = known
		}
	}
	return out
}

// known is what is known of an object for a user that trusts this look and later
// ones. A failure that says nothing of the object leaves the last known value.
func (w *watched[T]) known(o *object[T], trusted uint64) (known resolve.Object[T], ok bool) {
	fresh := o.looked >= max(trusted, 1)
	switch {
	case o.err != nil && (!fresh || refused(o.err)):
		return resolve.Object[T]{Value: o.value, Err: o.err}, true
	case !fresh:
		return known, false
	case !o.exists:
		return resolve.Object[T]{Err: apierrors.NewNotFound(corev1.Resource(w.kind.name), o.key.Name)}, true
	default:
		return resolve.Object[T]{Value: o.value}, true
	}
}

// pending is the look that a list which starts now will be.
func (w *watched[T]) pending(o *object[T]) uint64 {
	w.cache.mu.Lock()
	defer w.cache.mu.Unlock()
	return o.wanted
}

// found notes the answer of a list or a watch. look is 0 for a watch. It reports
// whether the object can no longer change, so that there is nothing to follow
// until a further pod comes.
func (w *watched[T]) found(o *object[T], look uint64, exists bool, value T) (final bool) {
	c := w.cache
	c.mu.Lock()
	changed := o.looked == 0 || o.exists != exists || o.err != nil && refused(o.err) ||
		exists && (o.value.GetUID() != value.GetUID() || o.value.GetResourceVersion() != value.GetResourceVersion())
	var tell []types.UID
	for uid, trusted := range o.users {
		if changed || trusted > o.looked {
			tell = append(tell, uid)
		}
	}
	o.exists, o.value, o.err = exists, value, nil
	o.looked = max(o.looked, look)
	final = exists && w.kind.immutable(value) && o.looked == o.wanted
	if final {
		o.following = false
	}
	c.mu.Unlock()
	c.notify(tell...)
	return final
}

// failed notes why the object cannot be read.
func (w *watched[T]) failed(o *object[T], err error) {
	c := w.cache
	c.mu.Lock()
	first := o.err == nil || o.err.Error() != err.Error()
	o.err = err
	var tell []types.UID
	for uid, trusted := range o.users {
		if first && (refused(err) || o.looked < trusted) {
			tell = append(tell, uid)
		}
	}
	c.mu.Unlock()
	slices.Sort(tell)
	c.notify(tell...)
}
