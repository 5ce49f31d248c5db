package mirror

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

const (
	// period is how often mirror pods are looked at though nobody asked for it.
	period = 10 * time.Second
	// retryFirst and retryMost bound the pause after a failure.
	retryFirst = time.Second
	retryMost  = 5 * time.Minute
	callLimit  = 30 * time.Second
)

// Static are the static pods.
type Static interface {
	// Known is true once all of them were read.
	Known() bool
	// Pods returns those that are known.
	Pods() []*corev1.Pod
	// Has is true of one of them, also while it ends.
	Has(uid types.UID) bool
	// Mirror returns the pod in the API that shows one; nil for none.
	Mirror(pod *corev1.Pod) *corev1.Pod
	// Refuse ends one that the API server calls invalid.
	Refuse(uid types.UID)
}

// Config is what a Manager works with. All fields are required.
type Config struct {
	Client typedcorev1.PodsGetter
	Node   string
	// NodeUID is that of the Node object; empty while it is not known.
	NodeUID func() types.UID
	Static  Static
	// InAPI returns the pods of the node that the API has; false before they are known.
	InAPI func() (pods []*corev1.Pod, known bool)
	// Refused is called after a pod was refused.
	Refused func(pod *corev1.Pod)
	// Problem tells users what keeps a static pod from being shown.
	Problem func(error)
}

// Manager keeps a mirror pod for each static pod, and no other.
type Manager struct {
	cfg    Config
	signal chan struct{}

	// Run's alone.
	failures map[types.NamespacedName]failure
}

// failure is the last one about a pod.
type failure struct {
	text  string
	delay time.Duration
	until time.Time
}

// New returns a manager that does nothing until Run.
func New(cfg Config) *Manager {
	return &Manager{cfg: cfg, signal: make(chan struct{}, 1), failures: map[types.NamespacedName]failure{}}
}

// Changed says that something may be to do. It never blocks.
func (m *Manager) Changed() {
	select {
	case m.signal <- struct{}{}:
	default:
	}
}

// Run works until the context ends.
func (m *Manager) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.signal:
		case <-timer.C:
		}
		timer.Reset(m.reconcile(ctx))
	}
}

// reconcile does what is to do, and returns when to reconcile again.
func (m *Manager) reconcile(ctx context.Context) time.Duration {
	inAPI, known := m.cfg.InAPI()
	if !known {
		return retryFirst
	}
	all := m.cfg.Static.Known() // before they are asked for: more may come meanwhile
	static := m.cfg.Static.Pods()
	mine := make(map[types.NamespacedName]bool, len(static))
	for _, pod := range static {
		mine[key(pod)] = true
	}
	held := map[types.NamespacedName]*corev1.Pod{}
	for _, pod := range inAPI { // thousands, of which next to none matters here
		if isMirror(pod) || mine[key(pod)] {
			held[key(pod)] = pod
		}
	}
	todo := map[types.NamespacedName]func(context.Context) error{}
	for _, pod := range static {
		switch other := held[key(pod)]; {
		case other == nil:
			todo[key(pod)] = func(ctx context.Context) error { return m.create(ctx, pod) }
		case m.cfg.Static.Mirror(pod) != nil:
			delete(held, key(pod))
		case !isMirror(other):
			todo[key(pod)] = func(context.Context) error {
				return fmt.Errorf("static pod %s is not run: the API has a pod of that name; rename one of the two", key(pod))
			}
		}
	}
	for _, pod := range held {
		// One of no static pod may be of a source that was not read yet.
		if isMirror(pod) && (all || mine[key(pod)]) {
			todo[key(pod)] = func(ctx context.Context) error { return m.delete(ctx, pod) }
		}
	}
	maps.DeleteFunc(m.failures, func(key types.NamespacedName, _ failure) bool { return todo[key] == nil })
	again := period
	for key, do := range todo {
		again = min(again, m.try(ctx, key, do))
	}
	return again
}

func key(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

func isMirror(pod *corev1.Pod) bool {
	_, is := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return is
}

// try does it unless it failed a moment ago, and returns when to try again.
func (m *Manager) try(ctx context.Context, key types.NamespacedName, do func(context.Context) error) time.Duration {
	f := m.failures[key]
	if wait := time.Until(f.until); wait > 0 {
		return wait
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	err := do(ctx)
	if err == nil {
		delete(m.failures, key)
		return retryFirst // the informer shows what came of it
	}
	if ctx.Err() == nil && f.text != err.Error() {
		log.G(ctx).WithError(err).Warn("a static pod is not shown in the API as it should be")
		m.cfg.Problem(err)
	}
	f.text, f.delay = err.Error(), min(max(retryFirst, 2*f.delay), retryMost)
	f.until = time.Now().Add(f.delay)
	m.failures[key] = f
	return f.delay
}

func (m *Manager) create(ctx context.Context, pod *corev1.Pod) error {
	node := m.cfg.NodeUID()
	if node == "" {
		return nil // it comes with the registration
	}
	mirror := pod.DeepCopy()
	mirror.UID, mirror.ResourceVersion, mirror.Status = "", "", corev1.PodStatus{}
	if mirror.Annotations == nil {
		mirror.Annotations = map[string]string{}
	}
	mirror.Annotations[corev1.MirrorPodAnnotationKey] = string(pod.UID)
	// NodeRestriction wants it so.
	mirror.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "Node", Name: m.cfg.Node, UID: node, Controller: new(true),
	}}
	_, err := m.cfg.Client.Pods(pod.Namespace).Create(ctx, mirror, metav1.CreateOptions{})
	switch {
	case err == nil, apierrors.IsAlreadyExists(err): // the informer will show it
		return nil
	case apierrors.IsInvalid(err):
		m.cfg.Static.Refuse(pod.UID)
		m.cfg.Refused(pod)
		return fmt.Errorf("static pod %s is not run: %w", key(pod), err)
	}
	return fmt.Errorf("make the mirror pod of static pod %s: %w", key(pod), err)
}

// delete lets a mirror pod go at once: nothing ends with it.
func (m *Manager) delete(ctx context.Context, pod *corev1.Pod) error {
	err := m.cfg.Client.Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("delete mirror pod %s: %w", key(pod), err)
}
