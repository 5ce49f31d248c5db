package syncloop

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// CouldHaveRunningContainers is true while a container of the pod may run. The
// status writer asks before it writes a terminal phase.
func (l *Loop) CouldHaveRunningContainers(uid types.UID) bool {
	w := l.worker(uid)
	return w != nil && w.couldBeRunning()
}

// LastRelist is when the remote was last listed whole; zero if it never was.
func (l *Loop) LastRelist() time.Time { return l.pleg.LastList() }

// Pods returns the pods of this node with their latest status.
func (l *Loop) Pods() []*corev1.Pod {
	workers := l.all()
	pods := make([]*corev1.Pod, 0, len(workers))
	for _, w := range workers {
		pod, status, _ := w.snapshot()
		if pod == nil {
			continue
		}
		pod = pod.DeepCopy()
		for _, c := range pod.Status.Conditions { // those of others
			if !slices.ContainsFunc(status.Conditions, func(o corev1.PodCondition) bool { return o.Type == c.Type }) {
				status.Conditions = append(slices.Clip(status.Conditions), c)
			}
		}
		pod.Status = status
		pods = append(pods, pod)
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	return pods
}

// ContainerLogs opens the log of a container's newest attempt, or with previous
// of the one before. Errors: NotFound for an unknown pod or container, Invalid
// for one that has not started yet, Unsupported where the backend has no logs.
func (l *Loop) ContainerLogs(ctx context.Context, namespace, name, container string, previous bool,
	opts backend.LogOptions,
) (io.ReadCloser, error) {
	w := l.find(namespace, name)
	if w == nil {
		return nil, backend.Errorf(backend.ErrNotFound, "pod %q not found in namespace %q on this node", name, namespace)
	}
	pod, _, facts := w.snapshot()
	if !hasContainer(pod, container) {
		return nil, backend.Errorf(backend.ErrNotFound, "container %q not found in pod %q", container, name)
	}
	if l.cfg.Backend.Logs == nil {
		return nil, backend.Errorf(backend.ErrUnsupported, "the %s backend does not serve logs", l.cfg.Backend.Name)
	}
	in := Input{Facts: facts}
	var started []seen
	for _, c := range newView(&in).history(container) {
		if !c.StartedAt.IsZero() {
			started = append(started, c)
		}
	}
	skip := 0
	if previous {
		skip = 1
	}
	if len(started) <= skip {
		if previous {
			return nil, backend.Errorf(backend.ErrInvalid, "previous terminated container %q in pod %q not found", container, name)
		}
		return nil, backend.Errorf(backend.ErrInvalid, "container %q in pod %q is waiting to start", container, name)
	}
	c := started[skip]
	r, err := l.cfg.Backend.Logs.Open(ctx, c.ContainerFacts.Ref(c.pod.Ref), opts)
	if err != nil {
		return nil, fmt.Errorf("open log of container %q in pod %q: %w", container, name, err)
	}
	return r, nil
}

// find returns the worker of the pod that the API has under a name: the newest,
// where one made anew stands beside one that is still ending.
func (l *Loop) find(namespace, name string) *worker {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found *worker
	for _, w := range l.workers {
		if w.ref.Namespace != namespace || w.ref.Name != name {
			continue
		}
		pod, _, _ := w.snapshot()
		if pod == nil {
			continue
		}
		if found != nil {
			other, _, _ := found.snapshot()
			if pod.CreationTimestamp.Before(&other.CreationTimestamp) || w.isRemoved() {
				continue
			}
		}
		found = w
	}
	return found
}

func (w *worker) isRemoved() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.removed
}

func hasContainer(pod *corev1.Pod, name string) bool {
	return membersOf(pod).named(name) != nil
}
