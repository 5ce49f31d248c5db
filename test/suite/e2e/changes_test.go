package e2e

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// podChanges wakes those who wait for pods: one watch for all of them, where each
// would ask the API server many times a second.
type podChanges struct {
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu   sync.Mutex
	next map[string]chan struct{} // by namespace, closed at its pods' next change
}

// watchPods watches all pods of a cluster until end is called.
func watchPods(client kubernetes.Interface) *podChanges {
	ctx, stop := context.WithCancel(context.Background())
	p := &podChanges{stop: stop, next: map[string]chan struct{}{}}
	p.wg.Go(func() {
		for ctx.Err() == nil {
			p.watch(ctx, client)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	})
	return p
}

func (p *podChanges) end() {
	p.stop()
	p.wg.Wait()
}

// watch tells of changes until the watch ends, which begins with all pods.
func (p *podChanges) watch(ctx context.Context, client kubernetes.Interface) {
	events, err := client.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return // those who wait look every few seconds in any case
	}
	defer events.Stop()
	for e := range events.ResultChan() {
		if pod, ok := e.Object.(*corev1.Pod); ok {
			p.changed(pod.Namespace)
		}
	}
}

func (p *podChanges) changed(namespace string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if next, ok := p.next[namespace]; ok {
		close(next)
		delete(p.next, namespace)
	}
}

// of is closed at the next change of a namespace's pods.
func (p *podChanges) of(namespace string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	next, ok := p.next[namespace]
	if !ok {
		next = make(chan struct{})
		p.next[namespace] = next
	}
	return next
}

// unwatched is how often a wait for pods looks when no change is told of.
const unwatched = 2 * time.Second

// untilPods waits until f has no error, which looks at pods of a namespace.
func (c *cluster) untilPods(t *testing.T, namespace string, limit time.Duration, what string, f func() error) {
	t.Helper()
	if c.changes == nil { // its API server is stopped at times
		poll(t, pace, limit, what, f)
		return
	}
	await(t, func() <-chan struct{} { return c.changes.of(namespace) }, unwatched, limit, what, f)
}
