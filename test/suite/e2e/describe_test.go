package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// describe tells what the control plane knows of a pod, for a test that fails.
func (c *cluster) describe(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	var b strings.Builder
	if now, err := c.client.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{}); err != nil {
		fmt.Fprintf(&b, "API: %v\n", err)
	} else {
		status, err := json.Marshal(now.Status)
		fmt.Fprintf(
			&b, "API: uid %s, node %q, deleted %v, status %s %v\n", now.UID, now.Spec.NodeName, now.DeletionTimestamp, status,
			err,
		)
	}
	events, err := c.client.CoreV1().Events(pod.Namespace).List(t.Context(), metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", string(pod.UID)).String(),
	})
	if err != nil {
		fmt.Fprintf(&b, "events: %v\n", err)
	} else {
		for _, e := range events.Items {
			fmt.Fprintf(&b, "event: %s %s: %s\n", e.ReportingController, e.Reason, e.Message)
		}
	}
	for _, component := range []string{"kube-scheduler", "kube-controller-manager"} {
		log, err := os.ReadFile(c.LogPath(component))
		fmt.Fprintf(&b, "end of the log of %s: %s %v\n", component, tail(string(log), 2000), err)
	}
	return b.String()
}

// tell says, when a test has failed, what there is of its namespace's pods: those
// that are not Ready first, and the last Events.
func (c *cluster) tell(t *testing.T, namespace string) {
	t.Helper()
	if !t.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	var b strings.Builder
	pods, err := c.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		fmt.Fprintln(&b, err)
	} else {
		slices.SortStableFunc(pods.Items, func(x, y corev1.Pod) int {
			return cmp.Compare(len(lacks(&y)), len(lacks(&x)))
		})
		for i := range pods.Items[:min(4, len(pods.Items))] {
			pod := &pods.Items[i]
			fmt.Fprintf(
				&b, "pod %s: %s %s %s%.300s\n", pod.Name, pod.Status.Phase, pod.Status.Reason, lacks(pod), states(&pod.Status),
			)
		}
	}
	events, err := c.client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		fmt.Fprintln(&b, err)
	} else {
		slices.SortFunc(events.Items, func(x, y corev1.Event) int { return y.LastTimestamp.Compare(x.LastTimestamp.Time) })
		b.WriteString("Events, the last first:\n")
		for _, e := range events.Items {
			fmt.Fprintf(
				&b, "%s %s %s (%d): %.120s\n", e.LastTimestamp.UTC().Format("15:04:05"), e.InvolvedObject.Name, e.Reason, e.Count,
				e.Message,
			)
		}
	}
	t.Logf("namespace %s, with %d pods:\n%.1500s", namespace, len(pods.Items), b.String())
}

// lacks says which of its conditions a pod does not meet.
func lacks(pod *corev1.Pod) string {
	var b strings.Builder
	if pod.DeletionTimestamp != nil {
		b.WriteString("deleted, ")
	}
	for _, c := range pod.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			fmt.Fprintf(&b, "%s is %s %s %.100s, ", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	return b.String()
}

// describe tells what the host has.
func (h *containerdHost) describe(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, s := range h.sandboxes(t, "") {
		fmt.Fprintf(&b, "sandbox %s of %s attempt %d: %s\n", s.Id, s.Metadata.Uid, s.Metadata.Attempt, s.State)
	}
	for id, name := range runtimeapi.ContainerState_name {
		for _, c := range h.containers(t, runtimeapi.ContainerState(id)) {
			fmt.Fprintf(&b, "container %s of %s: %s\n", c.Id, c.Labels["io.kubernetes.pod.uid"], name)
		}
	}
	return b.String()
}
