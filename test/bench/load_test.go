package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/burstlet/burstlet/test/parts/controlplane"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

// clients is how many pods are created or deleted at once.
const clients = 32

// cluster is the shared control plane with an administrator's client.
type cluster struct {
	*controlplane.ControlPlane
	client kubernetes.Interface
}

func theCluster(b *testing.B) *cluster {
	b.Helper()
	cp := plane.Get(b)
	return &cluster{cp, cptest.Client(b, cp.AdminConfig())}
}

// namespace makes one with its default service account.
func (c *cluster) namespace(b *testing.B, name string) string {
	b.Helper()
	return cptest.Namespace(b, c.client, name)
}

// pod is one container that ends when it is asked to, bound to a node.
func pod(namespace, name, node string, token bool) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "bench"}},
		Spec: corev1.PodSpec{
			NodeName: node, AutomountServiceAccountToken: &token,
			Containers: []corev1.Container{{Name: "app", Image: "example.test/bench:1"}},
		},
	}
}

// forEach calls f for 0 to n-1, clients at a time.
func forEach(b *testing.B, n int, f func(ctx context.Context, i int) error) {
	b.Helper()
	g, ctx := errgroup.WithContext(b.Context())
	g.SetLimit(clients)
	for i := range n {
		g.Go(func() error { return f(ctx, i) })
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
}

func (c *cluster) createAll(b *testing.B, namespace, node string, n int, token bool) {
	b.Helper()
	forEach(b, n, func(ctx context.Context, i int) error {
		_, err := c.client.CoreV1().Pods(namespace).Create(ctx,
			pod(namespace, fmt.Sprintf("pod-%05d", i), node, token), metav1.CreateOptions{})
		return err
	})
}

// deleteAll deletes pods as a user does, with their own grace.
func (c *cluster) deleteAll(b *testing.B, namespace string, n int) {
	b.Helper()
	forEach(b, n, func(ctx context.Context, i int) error {
		err := c.client.CoreV1().Pods(namespace).Delete(ctx, fmt.Sprintf("pod-%05d", i), metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// watcher counts a node's pods as the API shows them.
type watcher struct {
	b       *testing.B
	changed chan struct{}

	mu    sync.Mutex
	pods  map[string]bool // whether each is Ready
	ready int
	gone  map[string]time.Time // when each was seen gone
}

// watchPods watches a node's pods until the benchmark ends.
func (c *cluster) watchPods(b *testing.B, node string) *watcher {
	b.Helper()
	w := &watcher{b: b, changed: make(chan struct{}, 1), pods: map[string]bool{}, gone: map[string]time.Time{}}
	factory := informers.NewSharedInformerFactoryWithOptions(c.client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", node).String()
		}),
		informers.WithTransform(onlyReadiness))
	informer := factory.Core().V1().Pods().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { w.note(obj, true) },
		UpdateFunc: func(_, obj any) { w.note(obj, true) },
		DeleteFunc: func(obj any) { w.note(obj, false) },
	}); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	factory.StartWithContext(ctx)
	b.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	if !cache.WaitForCacheSync(b.Context().Done(), informer.HasSynced) {
		b.Fatal("the pods were not listed")
	}
	return w
}

// onlyReadiness keeps of a pod what is counted.
func onlyReadiness(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		},
		Status: corev1.PodStatus{Conditions: pod.Status.Conditions},
	}, nil
}

func (w *watcher) note(obj any, there bool) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return
	}
	pod, _ := obj.(*corev1.Pod)
	ready := there && pod != nil && isReady(&pod.Status)
	w.mu.Lock()
	if w.pods[key] {
		w.ready--
	}
	if ready {
		w.ready++
	}
	w.pods[key] = ready
	if !there {
		delete(w.pods, key)
		w.gone[key] = time.Now()
	}
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func isReady(s *corev1.PodStatus) bool {
	for i := range s.Conditions {
		if s.Conditions[i].Type == corev1.PodReady {
			return s.Conditions[i].Status == corev1.ConditionTrue
		}
	}
	return false
}

// goneAt is when a pod was seen gone.
func (w *watcher) goneAt(namespace, name string) time.Time {
	w.b.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	at, ok := w.gone[namespace+"/"+name]
	if !ok {
		w.b.Fatalf("pod %s was not seen gone", name)
	}
	return at
}

// until waits until so many pods are there and Ready.
func (w *watcher) until(limit time.Duration, n int) {
	w.b.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		w.mu.Lock()
		there, ready := len(w.pods), w.ready
		w.mu.Unlock()
		if there == n && ready == n {
			return
		}
		select {
		case <-w.changed:
		case <-timer.C:
			w.b.Fatalf("after %s there are %d pods, %d of them Ready; want %d", limit, there, ready, n)
		}
	}
}
