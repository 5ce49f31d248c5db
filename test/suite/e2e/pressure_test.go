package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

// TestDiskPressure has a host run out of room for volumes.
func TestDiskPressure(t *testing.T) {
	lane.From(t, lane.All)
	turn(t, waiter, 60*time.Second)
	lowOnDisk(t, "pressed", newContainerdHost(t).hostView, 1)
}

// TestMemoryPressure has pods use up the memory that they may have.
func TestMemoryPressure(t *testing.T) {
	lane.From(t, lane.All)
	turn(t, waiter, 60*time.Second)
	lowOnMemory(t, "starved", newContainerdHost(t).hostView, 1)
}

// hostUnderPressure is what both show, on a host of its own.
func hostUnderPressure(t *testing.T, name string, options ...func(*remotehost.Config)) {
	h := newContainerdHost(t, options...)
	underPressure(t, name, h.hostView, 1)
	if !t.Failed() {
		h.empty(t)
	}
}

// underPressure is what both show, one after the other: they would evict each other's pods.
// The host is so many times slower than others.
func underPressure(t *testing.T, name string, h *hostView, slow int) {
	t.Run("disk", func(t *testing.T) { lowOnDisk(t, name+"-disk", h, slow) })
	t.Run("memory", func(t *testing.T) { lowOnMemory(t, name+"-memory", h, slow) })
}

// lowOnDisk fills the disk of a node's volumes, a small one of its own. The pod that
// has the most on it is evicted, as by a kubelet, and nothing of it stays; the one beside it
// runs on. The node has its condition meanwhile, and by that its taint, and loses both.
func lowOnDisk(t *testing.T, name string, h *hostView, slow int) {
	c, limit := theCluster(t), time.Duration(slow)*patience
	const disk = "/var/lib/small"
	if out, err := h.Command(t.Context(), "sh", "-c", "mkdir "+disk+" && mount -t tmpfs -o size=64m small "+
		disk).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	n := newNode(t, c, name, h.section("podsDir: "+disk+"/pods"))
	n.edit(
		"eviction: {evictionHard: {}}",
		"eviction: {evictionHard: {nodefs.available: 50%}, evictionPressureTransitionPeriod: 15s}",
	)
	n.run()
	namespace := c.namespace(t, name)
	scratch := mount("scratch", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	for name, mib := range map[string]int{"modest": 4, "greedy": 40} {
		s := scenario{
			name: name, policy: "Always",
			argv: []string{"sh", "-c", fmt.Sprintf("sleep 5; head -c %dm /dev/zero >/scratch/f; sleep 3600", mib)},
		}
		pod := s.pod(namespace, n.name)
		scratch(pod)
		if _, err := c.client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	n.wantPressure(t, limit, corev1.NodeDiskPressure, corev1.ConditionTrue)
	greedy := wait.Pod(t, c.client, namespace, "greedy", limit, "evicted", func(pod *corev1.Pod) error {
		const words = "The node was low on resource: ephemeral-storage. Threshold quantity: "
		if s := pod.Status; s.Phase != corev1.PodFailed || s.Reason != "Evicted" || !strings.HasPrefix(s.Message, words) {
			return fmt.Errorf("%s %s: %s", s.Phase, s.Reason, s.Message)
		}
		return nil
	})
	for _, condition := range greedy.Status.Conditions {
		if condition.Type == corev1.DisruptionTarget && condition.Reason == corev1.PodReasonTerminationByKubelet {
			greedy.Status.Conditions = nil
		}
	}
	if greedy.Status.Conditions != nil {
		t.Errorf("conditions of the evicted pod: %+v", greedy.Status.Conditions)
	}
	wait.For(t, limit, "nothing of the evicted pod is on the host", func() error {
		if left := h.sandboxes(t, string(greedy.UID)); len(left) > 0 {
			return fmt.Errorf("%d sandboxes", len(left))
		}
		if out, err := h.Command(t.Context(), "ls", disk+"/pods").CombinedOutput(); err != nil ||
			strings.Contains(string(out), string(greedy.UID)) {
			return fmt.Errorf("%s: %w", out, err)
		}
		return nil
	})
	n.wantPressure(t, limit, corev1.NodeDiskPressure, corev1.ConditionFalse)
	modest := wait.Pod(t, c.client, namespace, "modest", limit, "runs", phaseIs(corev1.PodRunning, ready))
	if modest.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the pod beside it: %s", states(&modest.Status))
	}
	n.deletePods(t)
}

// lowOnMemory has pods eat the memory that they may have together, a part of the host's:
// what others take of the machine does not count there. The pod that has the most is evicted.
func lowOnMemory(t *testing.T, name string, h *hostView, slow int) {
	c, limit := theCluster(t), time.Duration(slow)*patience
	n := newNode(t, c, name, h.section())
	n.edit("memory: 256Gi", "memory: 400Mi")
	n.edit(
		"eviction: {evictionHard: {}}",
		"eviction: {evictionHard: {allocatableMemory.available: 100Mi}, evictionPressureTransitionPeriod: 15s}",
	)
	n.run()
	namespace := c.namespace(t, name)
	scratch := mount(
		"scratch", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}},
	)
	for name, mib := range map[string]int{"modest": 4, "greedy": 320} {
		s := scenario{
			name: name, policy: "Always",
			argv: []string{"sh", "-c", fmt.Sprintf("sleep 5; head -c %dm /dev/zero >/scratch/f; sleep 3600", mib)},
		}
		pod := s.pod(namespace, n.name)
		scratch(pod)
		if _, err := c.client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	n.wantPressure(t, limit, corev1.NodeMemoryPressure, corev1.ConditionTrue)
	greedy := wait.Pod(t, c.client, namespace, "greedy", limit, "evicted", func(pod *corev1.Pod) error {
		const words = "The node was low on resource: memory. Threshold quantity: 100Mi, available: "
		if s := pod.Status; s.Phase != corev1.PodFailed || s.Reason != "Evicted" || !strings.HasPrefix(s.Message, words) {
			return fmt.Errorf("%s %s: %s", s.Phase, s.Reason, s.Message)
		}
		return nil
	})
	wait.For(t, limit, "nothing of the evicted pod is on the host", func() error {
		if left := h.sandboxes(t, string(greedy.UID)); len(left) > 0 {
			return fmt.Errorf("%d sandboxes", len(left))
		}
		return nil
	})
	n.wantPressure(t, limit, corev1.NodeMemoryPressure, corev1.ConditionFalse)
	modest := wait.Pod(t, c.client, namespace, "modest", limit, "runs", phaseIs(corev1.PodRunning, ready))
	if modest.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the pod beside it: %s", states(&modest.Status))
	}
	n.deletePods(t)
}

// pressureTaints are those of the conditions.
var pressureTaints = map[corev1.NodeConditionType]string{
	corev1.NodeDiskPressure: corev1.TaintNodeDiskPressure, corev1.NodeMemoryPressure: corev1.TaintNodeMemoryPressure,
}

// wantPressure waits until a pressure condition of the node is so, and its taint with it.
func (n *node) wantPressure(
	t *testing.T, limit time.Duration, kind corev1.NodeConditionType, want corev1.ConditionStatus,
) {
	t.Helper()
	wait.For(t, limit, string(kind)+" "+string(want), func() error {
		node, err := n.c.client.CoreV1().Nodes().Get(t.Context(), n.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		tainted := false
		for _, taint := range node.Spec.Taints {
			tainted = tainted || taint.Key == pressureTaints[kind] && taint.Effect == corev1.TaintEffectNoSchedule
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == kind && condition.Status == want &&
				tainted == (want == corev1.ConditionTrue) {
				return nil
			}
		}
		return fmt.Errorf("tainted: %v, conditions: %+v", tainted, node.Status.Conditions)
	})
}
