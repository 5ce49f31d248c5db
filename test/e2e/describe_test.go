package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

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
		fmt.Fprintf(&b, "API: uid %s, node %q, deleted %v, status %s %v\n", now.UID, now.Spec.NodeName, now.DeletionTimestamp, status, err)
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
