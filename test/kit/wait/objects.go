package wait

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

const (
	// retryPause is between a watch that broke off and the next.
	retryPause = 250 * time.Millisecond
	// tellTime bounds what a failure asks of the API server.
	tellTime = 10 * time.Second
	// lastEvents is how many Events a failure tells of.
	lastEvents = 10
)

// errNone is what a look has of an object that the API does not have.
var errNone = errors.New("the API has none of this name")

// Pod watches a pod until want returns nil, and returns the pod as want saw it. want
// sees every state in order; the pod need not exist yet. The test fails with want's
// last error, the pod's status and its last Events if that takes longer than limit.
func Pod(
	t testing.TB, client kubernetes.Interface, namespace, name string, limit time.Duration, what string,
	want func(*corev1.Pod) error,
) *corev1.Pod {
	t.Helper()
	var last *corev1.Pod
	err := watchFor(limit, name, pods(client, namespace), func(pod *corev1.Pod) error {
		last = pod
		if pod == nil {
			return errNone
		}
		return want(pod)
	})
	if err != nil {
		t.Fatalf("pod %s/%s: %s: not within %s: %v%s", namespace, name, what, limit, err, tell(client, namespace, name, last))
	}
	return last
}

// PodGone watches until the API has no pod of this name.
func PodGone(t testing.TB, client kubernetes.Interface, namespace, name string, limit time.Duration) {
	t.Helper()
	var last *corev1.Pod
	err := watchFor(limit, name, pods(client, namespace), func(pod *corev1.Pod) error {
		last = pod
		if pod == nil {
			return nil
		}
		return fmt.Errorf("it is still there, %s", pod.Status.Phase)
	})
	if err != nil {
		t.Fatalf("pod %s/%s: gone: not within %s: %v%s", namespace, name, limit, err, tell(client, namespace, name, last))
	}
}

// Node watches a node until want returns nil, and returns it, as [Pod] does.
func Node(
	t testing.TB, client kubernetes.Interface, name string, limit time.Duration, what string,
	want func(*corev1.Node) error,
) *corev1.Node {
	t.Helper()
	var last *corev1.Node
	nodes := client.CoreV1().Nodes()
	err := watchFor(limit, name, source[corev1.Node]{
		list: func(ctx context.Context, o metav1.ListOptions) ([]corev1.Node, string, error) {
			list, err := nodes.List(ctx, o)
			if err != nil {
				return nil, "", err
			}
			return list.Items, list.ResourceVersion, nil
		},
		watch: nodes.Watch,
	}, func(node *corev1.Node) error {
		last = node
		if node == nil {
			return errNone
		}
		return want(node)
	})
	if err != nil {
		t.Fatalf("node %s: %s: not within %s: %v", name, what, limit, err)
	}
	return last
}

// NodeReady says what a node lacks to be Ready; for [Node].
func NodeReady(node *corev1.Node) error {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("conditions %v", node.Status.Conditions)
}

// PodReady says what a pod lacks to be Ready; for [Pod].
func PodReady(pod *corev1.Pod) error {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("phase %s, conditions %v", pod.Status.Phase, pod.Status.Conditions)
}

// source is where objects of a kind come from.
type source[T any] struct {
	list  func(context.Context, metav1.ListOptions) (items []T, version string, err error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

func pods(client kubernetes.Interface, namespace string) source[corev1.Pod] {
	pods := client.CoreV1().Pods(namespace)
	return source[corev1.Pod]{
		list: func(ctx context.Context, o metav1.ListOptions) ([]corev1.Pod, string, error) {
			list, err := pods.List(ctx, o)
			if err != nil {
				return nil, "", err
			}
			return list.Items, list.ResourceVersion, nil
		},
		watch: pods.Watch,
	}
}

// named is an object with a name.
type named[T any] interface {
	*T
	GetName() string
}

// watchFor calls look with each state of an object, nil for its absence, until look
// returns nil. A watch that breaks off is opened again.
func watchFor[T any, P named[T]](limit time.Duration, name string, from source[T], look func(P) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	seen := errors.New("nothing was seen of it")
	for {
		done, err := watchOnce(ctx, name, from, func(p P) error {
			seen = look(p)
			return seen
		})
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("%w; the last watch: %w", seen, err)
			}
			return seen
		case <-time.After(retryPause):
		}
	}
}

// watchOnce lists and watches, and says whether look returned nil.
func watchOnce[T any, P named[T]](
	ctx context.Context, name string, from source[T], look func(P) error,
) (done bool, err error) {
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
	items, version, err := from.list(ctx, options)
	if err != nil {
		return false, fmt.Errorf("list: %w", err)
	}
	var found P
	for i := range items {
		if P(&items[i]).GetName() == name { // the clients of unit tests select nothing
			found = &items[i]
		}
	}
	options.ResourceVersion = version
	events, err := from.watch(ctx, options)
	if err != nil {
		return look(found) == nil, fmt.Errorf("watch: %w", err)
	}
	defer events.Stop()
	if look(found) == nil {
		return true, nil
	}
	for {
		select {
		case <-ctx.Done():
			return false, nil
		case event, open := <-events.ResultChan():
			if !open {
				return false, errors.New("the watch broke off")
			}
			object, is := event.Object.(P)
			switch {
			case event.Type == watch.Error:
				return false, fmt.Errorf("watch: %w", apierrors.FromObject(event.Object))
			case !is || object.GetName() != name:
				continue
			case event.Type == watch.Deleted:
				object = nil
			}
			if look(object) == nil {
				return true, nil
			}
		}
	}
}

// tell is a pod's status and its last Events, for the report of a failure.
func tell(client kubernetes.Interface, namespace, name string, pod *corev1.Pod) string {
	var b strings.Builder
	if pod != nil {
		status, err := json.Marshal(pod.Status)
		fmt.Fprintf(&b, "\non node %q, deleted: %t, status: %s", pod.Spec.NodeName, pod.DeletionTimestamp != nil, status)
		if err != nil {
			fmt.Fprintf(&b, " (%v)", err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), tellTime)
	defer cancel()
	events, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.name", name).String(),
	})
	if err != nil {
		fmt.Fprintf(&b, "\nno Events: %v", err)
		return b.String()
	}
	for _, e := range events.Items[max(0, len(events.Items)-lastEvents):] {
		if e.InvolvedObject.Name == name {
			fmt.Fprintf(&b, "\nEvent %s %s (%d times): %s", e.Type, e.Reason, max(1, e.Count), e.Message)
		}
	}
	return b.String()
}
