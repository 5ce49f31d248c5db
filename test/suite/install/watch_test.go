package install

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"

	"github.com/burstlet/burstlet/test/kit/wait"
)

// kept are the containers of pods: what an upgrade must not touch.
func kept(pods []corev1.Pod) map[string]string {
	all := map[string]string{}
	for _, pod := range pods {
		for _, s := range pod.Status.ContainerStatuses {
			all[pod.Name+"/"+s.Name] = fmt.Sprintf("%s of pod %s, restarted %d times", s.ContainerID, pod.UID, s.RestartCount)
		}
	}
	return all
}

// guard watches the pods of the workload and their node, and keeps what it must not
// see.
type guard struct {
	stops   []func()
	stopped atomic.Bool // an event of the end of a watch says nothing then
	running sync.WaitGroup

	mu   sync.Mutex
	seen []error
}

// watchOver begins to watch, until end.
func (i *installed) watchOver() *guard {
	i.Helper()
	g := &guard{}
	pods := i.c.Client.CoreV1().Pods(i.namespace)
	selected := metav1.ListOptions{LabelSelector: "app=work"}
	podList, err := pods.List(i.Context(), selected)
	if err != nil {
		i.Fatal(err)
	}
	for _, pod := range podList.Items {
		g.note(harmed(watch.Event{Type: watch.Added, Object: &pod}))
	}
	g.over(i, podList.ResourceVersion, func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		o.LabelSelector = selected.LabelSelector
		return pods.Watch(ctx, o)
	}, harmed)
	nodes := i.c.Client.CoreV1().Nodes()
	node, err := nodes.Get(i.Context(), i.node, metav1.GetOptions{})
	if err != nil {
		i.Fatal(err)
	}
	g.note(unready(watch.Event{Type: watch.Added, Object: node}))
	g.over(i, node.ResourceVersion, func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, i.node).String()
		return nodes.Watch(ctx, o)
	}, unready)
	return g
}

// unready says what is wrong with a node that should be Ready.
func unready(e watch.Event) error {
	if node, ok := e.Object.(*corev1.Node); !ok || e.Type == watch.Deleted || wait.NodeReady(node) != nil {
		return fmt.Errorf("node: %s: %s", e.Type, conditions(e.Object))
	}
	return nil
}

func conditions(object runtime.Object) string {
	if node, ok := object.(*corev1.Node); ok {
		return fmt.Sprintf("%+v", node.Status.Conditions)
	}
	return fmt.Sprintf("%+v", object)
}

// over watches from a version of the objects on. A watch ends when the connection or the
// API server's patience does: then another goes on where it was, and nothing is missed.
func (g *guard) over(
	i *installed, from string, watcher func(context.Context, metav1.ListOptions) (watch.Interface, error),
	check func(watch.Event) error,
) {
	i.Helper()
	w, err := toolswatch.NewRetryWatcherWithContext(i.Context(), from, &cache.ListWatch{WatchFuncWithContext: watcher})
	if err != nil {
		i.Fatal(err)
	}
	g.stops = append(g.stops, w.Stop)
	g.running.Go(func() {
		for event := range w.ResultChan() {
			g.note(check(event))
		}
		if !g.stopped.Load() {
			g.note(errors.New("a watch ended by itself: what came then was not seen"))
		}
	})
}

// note keeps what must not be, until the end.
func (g *guard) note(err error) {
	if err == nil || g.stopped.Load() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = append(g.seen, err)
}

// harmed says what is wrong with a pod that should be as it was.
func harmed(e watch.Event) error {
	pod, ok := e.Object.(*corev1.Pod)
	if !ok || e.Type == watch.Deleted || e.Type == watch.Error {
		return fmt.Errorf("pod: %s %v", e.Type, e.Object)
	}
	if pod.DeletionTimestamp != nil {
		return fmt.Errorf("pod %s is being deleted", pod.Name)
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue {
			return fmt.Errorf("pod %s is not Ready: %s %s", pod.Name, c.Reason, c.Message)
		}
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.RestartCount > 0 || s.State.Running == nil {
			return fmt.Errorf("pod %s: container %s: %d restarts, %+v", pod.Name, s.Name, s.RestartCount, s.State)
		}
	}
	return nil
}

// end returns what was seen.
func (g *guard) end() error {
	g.stopped.Store(true)
	for _, stop := range g.stops {
		stop()
	}
	g.running.Wait()
	return errors.Join(g.seen...)
}

// upgrade brings new values, which roll burstlet's own pods, while the workload is
// used: nobody notices.
func (i *installed) upgrade(v values) {
	i.Helper()
	before, processes := i.pods(), i.processes()
	g, u := i.watchOver(), i.serveUsers(before)
	i.helm.run(i.T, "upgrade", withValues(i.T, v)...)
	i.awaitNode(i.node)
	i.use(before[0]) // through a process that was not there before
	served, failed := u.end()
	if err := g.end(); err != nil {
		i.Errorf("seen during the upgrade: %v", err)
	}
	if served == 0 || len(failed) > 0 {
		i.Errorf("during the upgrade %d requests were served, failed: %v", served, errors.Join(failed...))
	}
	i.Logf("%d requests were served during the upgrade", served)
	if was, is := kept(before), kept(i.pods()); !maps.Equal(was, is) {
		i.Errorf("the upgrade changed containers from\n%v to\n%v", was, is)
	}
	for _, now := range i.processes() {
		if slices.ContainsFunc(processes, func(was corev1.Pod) bool { return was.UID == now.UID }) {
			i.Errorf("pod %s of burstlet was not replaced", now.Name)
		}
	}
}

// processes are the pods of burstlet itself that are not ending.
func (i *installed) processes() []corev1.Pod {
	i.Helper()
	list, err := i.c.Client.CoreV1().Pods(i.helm.namespace).List(context.Background(), metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/name=burstlet,app.kubernetes.io/component=node",
	})
	if err != nil {
		i.Fatal(err)
	}
	stay := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	if len(stay) == 0 {
		i.Fatal("there is no pod of burstlet")
	}
	return stay
}
