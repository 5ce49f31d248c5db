package differential

import (
	"context"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// record is what was seen of all pods: each version, and each Event once.
type record struct {
	mu   sync.Mutex
	pods map[string]*history // by namespace/name
}

// history is what was seen of one pod, in order.
type history struct {
	versions []*corev1.Pod
	gone     bool
	events   []*corev1.Event
	counted  map[string]bool // names of those in events
}

// watch records until the test ends.
func watch(t *testing.T, client kubernetes.Interface) *record {
	t.Helper()
	r := &record{pods: map[string]*history{}}
	factory := informers.NewSharedInformerFactory(client, 0)
	add(t, factory.Core().V1().Pods().Informer(), r.pod)
	add(t, factory.Core().V1().Events().Informer(), func(e *corev1.Event, _ bool) { r.event(e) })
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); factory.Shutdown() })
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return r
}

// add calls see with each version of an object, and says whether it is the last.
func add[T any](t *testing.T, informer cache.SharedIndexInformer, see func(object T, last bool)) {
	t.Helper()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { see(o.(T), false) },    //nolint:forcetypeassert // of its kind alone
		UpdateFunc: func(_, o any) { see(o.(T), false) }, //nolint:forcetypeassert // of its kind alone
		DeleteFunc: func(o any) {
			if final, is := o.(cache.DeletedFinalStateUnknown); is {
				o = final.Obj
			}
			see(o.(T), true) //nolint:forcetypeassert // of its kind alone
		},
	}); err != nil {
		t.Fatal(err)
	}
}

func (r *record) of(namespace, name string) *history {
	h := r.pods[namespace+"/"+name]
	if h == nil {
		h = &history{counted: map[string]bool{}}
		r.pods[namespace+"/"+name] = h
	}
	return h
}

func (r *record) pod(pod *corev1.Pod, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.of(pod.Namespace, pod.Name)
	h.versions, h.gone = append(h.versions, pod), gone
}

func (r *record) event(e *corev1.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.of(e.InvolvedObject.Namespace, e.InvolvedObject.Name)
	if e.InvolvedObject.Kind == "Pod" && !h.counted[e.Name] {
		h.counted[e.Name] = true
		h.events = append(h.events, e)
	}
}

// look returns the last version of a pod for which want is nil, want's error of the last
// version if there is none, whether the pod is gone, and its Events.
func (r *record) look(
	namespace, name string, want func(*corev1.Pod) error,
) (pod *corev1.Pod, gone bool, events []*corev1.Event, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.of(namespace, name)
	if len(h.versions) == 0 {
		return nil, false, nil, errNotYet
	}
	for i := len(h.versions) - 1; i >= 0 && pod == nil; i-- {
		failed := want(h.versions[i])
		switch {
		case failed == nil:
			pod = h.versions[i]
		case err == nil:
			err = failed
		}
	}
	if pod != nil {
		err = nil
	}
	return pod, h.gone, append([]*corev1.Event(nil), h.events...), err
}

// last is the newest version of a pod.
func (r *record) last(namespace, name string) *corev1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	versions := r.of(namespace, name).versions
	if len(versions) == 0 {
		return &corev1.Pod{}
	}
	return versions[len(versions)-1]
}
