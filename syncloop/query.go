package syncloop

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/metrics"
	"github.com/burstlet/burstlet/syncloop/streams"
)

// CouldHaveRunningContainers is true while a container of the pod may run. The
// status writer asks before it writes a terminal phase.
func (l *Loop) CouldHaveRunningContainers(uid types.UID) bool {
	w := l.worker(uid)
	return w != nil && w.couldBeRunning()
}

// LastRelist is when the remote was last listed whole; zero if it never was.
func (l *Loop) LastRelist() time.Time { return l.pleg.LastList() }

// Pods returns the pods of this node with their latest status, or those of them that are
// wanted, which is asked of their metadata and spec. They are only to be read: they share what
// they are made of with the engine, because every scrape asks for them.
func (l *Loop) Pods(wanted func(*corev1.Pod) bool) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, w := range l.all() {
		pod, status, _ := w.snapshot()
		if pod == nil || wanted != nil && !wanted(pod) {
			continue
		}
		light := *pod
		for _, c := range pod.Status.Conditions { // those of others
			if !slices.ContainsFunc(status.Conditions, func(o corev1.PodCondition) bool { return o.Type == c.Type }) {
				status.Conditions = append(slices.Clip(status.Conditions), c)
			}
		}
		light.Status = status
		pods = append(pods, &light)
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	return pods
}

// measured yields what the workers know of their pods, for the metrics.
func (l *Loop) measured(yield func(metrics.Pod) bool) {
	for _, w := range l.all() {
		pod, status, facts := w.snapshot()
		if !yield(metrics.Pod{Pod: pod, Status: status, Facts: facts, Seen: w.seen}) {
			return
		}
	}
}

// AwaitPod waits until the engine knows the pod that a caller names: until the remote was
// listed whole once since Run began and, where the pod is not known then, until the API's
// pods are. Callers come as soon as the node has a process's address, and what ran under
// the process before it still runs. Errors: Unavailable, when ctx ends before the remote
// was listed.
func (l *Loop) AwaitPod(ctx context.Context, ref backend.Ref) error {
	select {
	case <-l.remoteKnown:
	case <-ctx.Done():
		return backend.Errorf(
			backend.ErrUnavailable, "the node has just started and has not listed its pods on the remote yet, try again",
		)
	}
	if _, found := l.named(ref); !found {
		select {
		case <-l.podsKnown:
		case <-ctx.Done(): // static pods may be all that there is for long
		}
	}
	return nil
}

// named finds the pod that a caller names.
func (l *Loop) named(ref backend.Ref) (streams.Pod, bool) {
	var w *worker
	if ref.UID == "" {
		w = l.find(ref.Namespace, ref.Name)
	} else if w = l.worker(ref.UID); w != nil && (w.ref.Namespace != ref.Namespace || w.ref.Name != ref.Name) {
		w = nil
	}
	if w != nil {
		if pod, status, facts := w.snapshot(); pod != nil {
			if facts == nil { // its worker has not had a turn yet
				record, _ := l.pleg.Get(w.ref.UID)
				facts = record.Facts
			}
			return streams.Pod{Pod: pod, Status: status, Facts: facts}, true
		}
	}
	return streams.Pod{}, false
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
