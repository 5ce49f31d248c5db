package e2e

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// TestShutdown ends burstlet as an operator does: it ends well and soon, with no wait
// for the time that it may take, its pods run on, a pod that ends meanwhile is told of by the next process, and
// nothing is made again.
func TestShutdown(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, waiter, 40*time.Second)
	c := theCluster(t)
	h := newContainerdHost(t)
	n := newNode(t, c, "shutdown", h.section())
	n.configure("shutdown: {flushTimeout: 10m}\n")
	n.run()
	namespace := c.namespace(t, "shutdown")
	pods := c.client.CoreV1().Pods(namespace)
	for _, s := range []scenario{
		{name: "runs", policy: "Always", argv: forever},
		{name: "ends", policy: "Never", argv: []string{"sh", "-c", "until [ -e /tmp/enough ]; do sleep 0.1; done; exit 4"}},
	} {
		if _, err := pods.Create(t.Context(), s.pod(namespace, n.name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		wait.Pod(t, c.client, namespace, s.name, patience, "runs", phaseIs(corev1.PodRunning, ready))
	}
	before := h.ids(t)
	started := time.Now()
	n.stop()
	if took := time.Since(started); took > time.Minute {
		t.Errorf("the shutdown took %s", took)
	}
	h.run(t, "ends", "touch", "/tmp/enough")
	wait.For(t, patience, "a pod ends while nobody looks", func() error {
		if left := len(h.containers(t, runtimeapi.ContainerState_CONTAINER_RUNNING)); left != 1 {
			return fmt.Errorf("%d containers run", left)
		}
		return nil
	})
	n.start()
	wait.Pod(t, c.client, namespace, "ends", patience, "has ended", phaseIs(corev1.PodFailed, exited(4, "Error")))
	pod, err := pods.Get(t.Context(), "runs", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := phaseIs(corev1.PodRunning, ready)(pod); err != nil || pod.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the pod that ran on: %v, %s", err, states(&pod.Status))
	}
	if after := h.ids(t); after != before {
		t.Errorf("containers before %s, after %s", before, after)
	}
}

// run runs a command in the container of a pod, past burstlet.
func (h *containerdHost) run(t *testing.T, pod string, argv ...string) {
	t.Helper()
	for _, container := range h.containers(t, runtimeapi.ContainerState_CONTAINER_RUNNING) {
		if container.Labels["io.kubernetes.pod.name"] != pod {
			continue
		}
		reply, err := h.cri.ExecSync(t.Context(), &runtimeapi.ExecSyncRequest{ContainerId: container.Id, Cmd: argv})
		if err != nil || reply.ExitCode != 0 {
			t.Fatalf("run %q in pod %s: %v %v", argv, pod, reply, err)
		}
		return
	}
	t.Fatalf("pod %s does not run", pod)
}

// ids names every container that there is, dead ones too.
func (h *containerdHost) ids(t *testing.T) string {
	t.Helper()
	ids := map[string]string{}
	for _, state := range []runtimeapi.ContainerState{
		runtimeapi.ContainerState_CONTAINER_RUNNING, runtimeapi.ContainerState_CONTAINER_EXITED,
	} {
		for _, container := range h.containers(t, state) {
			ids[container.Labels["io.kubernetes.pod.name"]] += container.Id
		}
	}
	return fmt.Sprint(ids)
}
