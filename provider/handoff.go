package provider

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	vknode "github.com/virtual-kubelet/virtual-kubelet/node"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/burstlet/burstlet/provider/inert"
)

// podWorkers suffice: every call returns at once.
const podWorkers = 2

// podHandler is what the framework hands pods to. It keeps no pod and does
// nothing but pass on that a key changed.
//
// The framework decides by GetPod between creating and updating, and knows only
// names. So GetPod answers only when the pod that the API holds now is the one,
// by UID, that was created here before: a successor under the same name is not
// hidden by the one before it, and no pod is created twice for nothing.
type podHandler struct {
	store   cache.Store
	enqueue func(key string)

	mu   sync.Mutex
	seen map[string]types.UID // handed to CreatePod and still in the store
}

var (
	_ vknode.PodLifecycleHandler = (*podHandler)(nil)
	_ vknode.PodNotifier         = (*podHandler)(nil)
)

func newPodHandler(store cache.Store, enqueue func(string)) *podHandler {
	return &podHandler{store: store, enqueue: enqueue, seen: map[string]types.UID{}}
}

// CreatePod is a hint.
func (h *podHandler) CreatePod(_ context.Context, pod *corev1.Pod) error {
	key := pod.Namespace + "/" + pod.Name
	h.mu.Lock()
	// The store loses a pod before forget is called for it, so what is noted
	// here while the store has it will be forgotten.
	if now := h.stored(key); now != nil && now.UID == pod.UID {
		h.seen[key] = pod.UID
	}
	h.mu.Unlock()
	h.enqueue(key)
	return nil
}

// UpdatePod is a hint.
func (h *podHandler) UpdatePod(_ context.Context, pod *corev1.Pod) error {
	h.enqueue(pod.Namespace + "/" + pod.Name)
	return nil
}

// DeletePod is a hint.
func (h *podHandler) DeletePod(_ context.Context, pod *corev1.Pod) error {
	h.enqueue(pod.Namespace + "/" + pod.Name)
	return nil
}

// GetPod returns the API's pod if it was created here before, and is a hint.
func (h *podHandler) GetPod(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	key := namespace + "/" + name
	h.enqueue(key)
	h.mu.Lock()
	defer h.mu.Unlock()
	pod := h.stored(key)
	if pod == nil || h.seen[key] != pod.UID {
		// Made at the very boundary: the framework does not unwrap its classes.
		return nil, errdefs.NotFoundf("pod %s is not known", key)
	}
	return pod, nil
}

// GetPodStatus returns the status that the API holds: it is never newer here.
func (h *podHandler) GetPodStatus(ctx context.Context, namespace, name string) (*corev1.PodStatus, error) {
	pod, err := h.GetPod(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return pod.Status.DeepCopy(), nil
}

// GetPods answers that there are none: what the framework deletes at its start
// because the API does not have it, is for the engine to find.
func (h *podHandler) GetPods(context.Context) ([]*corev1.Pod, error) { return nil, nil }

// NotifyPods makes the framework not poll for statuses. The callback, which
// would make it write them, is never called.
func (h *podHandler) NotifyPods(context.Context, func(*corev1.Pod)) {}

// forget drops what is known of a key that left the store.
func (h *podHandler) forget(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stored(key) == nil {
		delete(h.seen, key)
	}
}

func (h *podHandler) stored(key string) *corev1.Pod {
	// An informer's store never returns an error for a key.
	obj, ok, _ := h.store.GetByKey(key)
	if !ok {
		return nil
	}
	pod, _ := obj.(*corev1.Pod)
	return pod
}

// podControllerConfig is the framework's PodController made harmless.
func podControllerConfig(client kubernetes.Interface, pods cache.SharedIndexInformer,
	handler vknode.PodLifecycleHandler, writes inert.Pods,
) vknode.PodControllerConfig {
	// Listers of informers that are never started: the framework wants them for
	// environment variables, which are resolved elsewhere.
	never := informers.NewSharedInformerFactory(client, 0).Core().V1()
	return vknode.PodControllerConfig{
		PodClient:         writes,
		PodInformer:       podInformer{pods},
		EventRecorder:     inert.Recorder{},
		Provider:          handler,
		ConfigMapInformer: never.ConfigMaps(),
		SecretInformer:    never.Secrets(),
		ServiceInformer:   never.Services(),

		SyncPodsFromKubernetesRateLimiter:        noDelay{},
		SyncPodsFromKubernetesShouldRetryFunc:    retryAlways,
		DeletePodsFromKubernetesRateLimiter:      noDelay{},
		DeletePodsFromKubernetesShouldRetryFunc:  retryAlways,
		SyncPodStatusFromProviderRateLimiter:     noDelay{},
		SyncPodStatusFromProviderShouldRetryFunc: retryAlways,

		SkipDownwardAPIResolution: true,
	}
}

// runPods runs the framework's PodController until the context ends.
func runPods(ctx context.Context, cfg vknode.PodControllerConfig) error {
	controller, err := vknode.NewPodController(cfg)
	if err != nil {
		return fmt.Errorf("make pod controller: %w", err)
	}
	if err := controller.Run(withPodLogger(ctx), podWorkers); err != nil && ctx.Err() == nil {
		return fmt.Errorf("run pod controller: %w", err)
	}
	return nil
}

// noDelay is a rate limiter that does not limit: the framework's default lets
// ten pods a second through.
type noDelay struct{}

var _ workqueue.TypedRateLimiter[any] = noDelay{}

func (noDelay) When(any) time.Duration { return 0 }
func (noDelay) Forget(any)             {}
func (noDelay) NumRequeues(any) int    { return 0 }

// retryAlways keeps the framework from giving up a key after twenty tries.
func retryAlways(_ context.Context, _ string, tries int, _ time.Time, _ error) (*time.Duration, error) {
	delay := min(time.Duration(tries)*100*time.Millisecond, 5*time.Second)
	return &delay, nil
}
