package provider

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// unwrapped is an informer whose handlers get a pod where others get a tombstone. The
// framework takes tombstones for nothing, and would remember the pod for ever.
type unwrapped struct{ cache.SharedIndexInformer }

// AddEventHandler adds a handler that hears of pods alone.
func (u unwrapped) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return u.SharedIndexInformer.AddEventHandler(podsOnly{handler}) //nolint:wrapcheck // the informer's own
}

type podsOnly struct{ cache.ResourceEventHandler }

// OnDelete unwraps tombstones.
func (p podsOnly) OnDelete(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	p.ResourceEventHandler.OnDelete(obj)
}

// lightPods lists pods with what the framework looks at. It keeps the pod that it last
// handed on, of every pod: a second copy of all, as soon as their statuses change.
type lightPods struct{ corelisters.PodLister }

// List returns light pods.
func (l lightPods) List(selector labels.Selector) ([]*corev1.Pod, error) {
	return light(l.PodLister.List(selector))
}

// Pods lists those of a namespace.
func (l lightPods) Pods(namespace string) corelisters.PodNamespaceLister {
	return lightNamespace{l.PodLister.Pods(namespace)}
}

type lightNamespace struct{ corelisters.PodNamespaceLister }

// List returns light pods.
func (l lightNamespace) List(selector labels.Selector) ([]*corev1.Pod, error) {
	return light(l.PodNamespaceLister.List(selector))
}

// Get returns a light pod.
func (l lightNamespace) Get(name string) (*corev1.Pod, error) {
	pod, err := l.PodNamespaceLister.Get(name)
	if err != nil {
		return nil, err //nolint:wrapcheck // the framework looks at its class
	}
	return lightPod(pod), nil
}

func light(pods []*corev1.Pod, err error) ([]*corev1.Pod, error) {
	out := make([]*corev1.Pod, len(pods))
	for i, pod := range pods {
		out[i] = lightPod(pod)
	}
	return out, err
}

// lightPod is a pod with what tells it from others, what tells that its spec changed, and
// what the framework reads to tell whether it is to end, or has. Changes of anything else
// it need not see: every event is a hint by our own handler.
func lightPod(pod *corev1.Pod) *corev1.Pod {
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Generation: pod.Generation,
			DeletionTimestamp: pod.DeletionTimestamp, DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds,
		},
		Status: corev1.PodStatus{Phase: pod.Status.Phase},
	}
	for i := range pod.Status.ContainerStatuses {
		var state corev1.ContainerState // without what was Running, as the framework reads it
		switch s := pod.Status.ContainerStatuses[i].State; {
		case s.Terminated != nil:
			state.Terminated = &corev1.ContainerStateTerminated{}
		case s.Waiting != nil:
			state.Waiting = &corev1.ContainerStateWaiting{}
		}
		out.Status.ContainerStatuses = append(out.Status.ContainerStatuses, corev1.ContainerStatus{State: state})
	}
	return out
}
