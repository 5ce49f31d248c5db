package inert

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// errInert is the answer to what the framework should never ask.
var errInert = errors.New("not available to the framework")

// Pods is the pod client that the framework gets. No write does anything:
// it says that it succeeded, is counted, and is passed on as a hint, because the
// framework's wish to write means that it saw a change. Status and deletion of
// pods are statusmgr's alone.
type Pods struct {
	// Dropped counts a write by its verb; Enqueue takes the pod, as namespace/name, as a hint.
	Dropped func(verb string)
	Enqueue func(key string)
}

var _ corev1client.PodsGetter = Pods{}

// Pods returns the client of one namespace.
func (p Pods) Pods(namespace string) corev1client.PodInterface {
	return podClient{p, namespace}
}

type podClient struct {
	Pods
	namespace string
}

func (c podClient) drop(verb, name string) {
	c.Dropped(verb)
	if name != "" {
		c.Enqueue(c.namespace + "/" + name)
	}
}

func (c podClient) Create(_ context.Context, pod *corev1.Pod, _ metav1.CreateOptions) (*corev1.Pod, error) {
	c.drop("create", pod.Name)
	return pod, nil
}

func (c podClient) Update(_ context.Context, pod *corev1.Pod, _ metav1.UpdateOptions) (*corev1.Pod, error) {
	c.drop("update", pod.Name)
	return pod, nil
}

func (c podClient) UpdateStatus(_ context.Context, pod *corev1.Pod, _ metav1.UpdateOptions) (*corev1.Pod, error) {
	c.drop("update_status", pod.Name)
	return pod, nil
}

func (c podClient) UpdateEphemeralContainers(
	_ context.Context, name string, pod *corev1.Pod, _ metav1.UpdateOptions,
) (*corev1.Pod, error) {
	c.drop("update_ephemeralcontainers", name)
	return pod, nil
}

func (c podClient) UpdateResize(
	_ context.Context, name string, pod *corev1.Pod, _ metav1.UpdateOptions,
) (*corev1.Pod, error) {
	c.drop("update_resize", name)
	return pod, nil
}

func (c podClient) Delete(_ context.Context, name string, _ metav1.DeleteOptions) error {
	c.drop("delete", name)
	return nil
}

func (c podClient) DeleteCollection(context.Context, metav1.DeleteOptions, metav1.ListOptions) error {
	c.drop("delete_collection", "")
	return nil
}

func (c podClient) Patch(
	_ context.Context, name string, _ types.PatchType, _ []byte, _ metav1.PatchOptions, _ ...string,
) (*corev1.Pod, error) {
	c.drop("patch", name)
	return &corev1.Pod{}, nil
}

func (c podClient) Apply(
	_ context.Context, pod *applycorev1.PodApplyConfiguration, _ metav1.ApplyOptions,
) (*corev1.Pod, error) {
	c.drop("apply", *pod.Name)
	return &corev1.Pod{}, nil
}

func (c podClient) ApplyStatus(
	_ context.Context, pod *applycorev1.PodApplyConfiguration, _ metav1.ApplyOptions,
) (*corev1.Pod, error) {
	c.drop("apply_status", *pod.Name)
	return &corev1.Pod{}, nil
}

func (c podClient) Bind(_ context.Context, binding *corev1.Binding, _ metav1.CreateOptions) error {
	c.drop("bind", binding.Name)
	return nil
}

func (c podClient) Evict(_ context.Context, eviction *policyv1beta1.Eviction) error {
	c.drop("evict", eviction.Name)
	return nil
}

func (c podClient) EvictV1(_ context.Context, eviction *policyv1.Eviction) error {
	c.drop("evict", eviction.Name)
	return nil
}

func (c podClient) EvictV1beta1(_ context.Context, eviction *policyv1beta1.Eviction) error {
	c.drop("evict", eviction.Name)
	return nil
}

func (podClient) Get(context.Context, string, metav1.GetOptions) (*corev1.Pod, error) {
	return nil, errInert
}

func (podClient) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	return nil, errInert
}

func (podClient) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return nil, errInert
}

func (podClient) GetLogs(string, *corev1.PodLogOptions) *rest.Request { return nil }

func (podClient) ProxyGet(_, _, _, _ string, _ map[string]string) rest.ResponseWrapper {
	return nil
}

// Recorder drops the framework's Events, which are about calls that mean
// nothing here.
type Recorder struct{}

// Event does nothing.
func (Recorder) Event(runtime.Object, string, string, string) {}

// Eventf does nothing.
func (Recorder) Eventf(runtime.Object, string, string, string, ...any) {}

// AnnotatedEventf does nothing.
func (Recorder) AnnotatedEventf(runtime.Object, map[string]string, string, string, string, ...any) {
}
