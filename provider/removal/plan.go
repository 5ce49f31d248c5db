package removal

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// verb is what is to be done about a pod now.
type verb int

const (
	// wait: it is ending already.
	wait verb = iota
	evict
	remove
)

// decide says what makes a pod leave: direct is true where nothing is to be asked
// but its own grace; waited is for how long it was made to leave already; a negative
// forceAfter never passes.
func decide(pod *corev1.Pod, direct bool, waited, forceAfter time.Duration) verb {
	switch {
	case pod.DeletionTimestamp != nil:
		return wait
	case direct, ofDaemonSet(pod), terminal(pod):
		return remove
	case forceAfter >= 0 && waited >= forceAfter:
		return remove
	}
	return evict
}

func ofDaemonSet(pod *corev1.Pod) bool {
	c := metav1.GetControllerOf(pod)
	return c != nil && c.Kind == "DaemonSet"
}

// isMirror is true of a pod that only shows a static pod: it goes with the Node, and the
// static pod with its configuration.
func isMirror(pod *corev1.Pod) bool {
	_, is := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return is
}

func terminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// isBare is true of a pod that has not ended and has no controller to make it again.
func isBare(pod *corev1.Pod) bool { return metav1.GetControllerOf(pod) == nil && !terminal(pod) }

// heldByFinalizers is true of a pod that has ended and was deleted, and is kept in
// the API by finalizers alone: it needs no node any more.
func heldByFinalizers(pod *corev1.Pod) bool {
	grace := pod.DeletionGracePeriodSeconds
	return pod.DeletionTimestamp != nil && grace != nil && *grace == 0 && len(pod.Finalizers) > 0 && terminal(pod)
}

// whyLeft says why a pod is still there; refused is why it was not let go, if it
// was not.
func whyLeft(pod *corev1.Pod, refused string) string {
	switch {
	case heldByFinalizers(pod):
		return "has ended and waits for its finalizers " + strings.Join(pod.Finalizers, ", ")
	case pod.DeletionTimestamp != nil:
		return "was asked to end by " + pod.DeletionTimestamp.UTC().Format(time.TimeOnly) + " UTC and has not"
	case refused != "":
		return "was not let go: " + refused
	}
	if c := metav1.GetControllerOf(pod); c != nil {
		return fmt.Sprintf("runs, or was made again by %s %s", c.Kind, c.Name)
	}
	return "runs"
}

func key(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }
