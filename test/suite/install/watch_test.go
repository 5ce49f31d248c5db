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

	"github.com/burstlet/burstlet/test/world/basecluster"
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
	pods, err := i.c.Client.CoreV1().Pods(metav1.NamespaceDefault).Watch(i.Context(), metav1.ListOptions{LabelSelector: "app=work"})
	if err != nil {
		i.Fatal(err)
	}
	g.over(pods, harmed)
	nodes, err := i.c.Client.CoreV1().Nodes().Watch(i.Context(), metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, i.node).String(),
	})
	if err != nil {
		i.Fatal(err)
	}
	g.over(nodes, func(e watch.Event) error {
		if node, ok := e.Object.(*corev1.Node); !ok || e.Type == watch.Deleted || !basecluster.Ready(node) {
			return fmt.Errorf("node: %s: %s", e.Type, conditions(e.Object))
		}
		return nil
	})
	return g
}

func conditions(object runtime.Object) string {
	if node, ok := object.(*corev1.Node); ok {
		return fmt.Sprintf("%+v", node.Status.Conditions)
	}
	return fmt.Sprintf("%+v", object)
}

func (g *guard) over(w watch.Interface, check func(watch.Event) error) {
	g.stops = append(g.stops, w.Stop)
	g.running.Go(func() {
		for event := range w.ResultChan() {
			if err := check(event); err != nil && !g.stopped.Load() {
				g.mu.Lock()
				g.seen = append(g.seen, err)
				g.mu.Unlock()
			}
		}
	})
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
	for _, name := range i.processes() {
		if slices.Contains(processes, name) {
			i.Errorf("pod %s of burstlet was not replaced", name)
		}
	}
}

// processes are the pods of burstlet itself that are not ending.
func (i *installed) processes() []string {
	i.Helper()
	list, err := i.c.Client.CoreV1().Pods(namespace).List(context.Background(), metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/name=burstlet,app.kubernetes.io/component=node",
	})
	if err != nil {
		i.Fatal(err)
	}
	var names []string
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			names = append(names, pod.Name)
		}
	}
	if len(names) == 0 {
		i.Fatal("there is no pod of burstlet")
	}
	return names
}
