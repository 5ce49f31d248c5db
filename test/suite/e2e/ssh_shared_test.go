package e2e

import (
	"fmt"
	"os/exec"
	"path"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/launch"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// TestTwoBurstletsOnOneHost: two processes run the pods of a node each on one host. What the
// host has once is not given away twice: its ports, the weight of a class of pods, and what
// it offers, of which doctor tells.
func TestTwoBurstletsOnOneHost(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, worker, 30*time.Second)
	c := theCluster(t)
	h := newContainerdHost(t)
	var lives []*hostLife
	for _, name := range []string{"shared-a", "shared-b"} {
		n := newNode(t, c, name, h.section())
		n.run()
		l := &life{T: t, c: c, n: n, namespace: c.namespace(t, name), remote: h.remote()}
		lives = append(lives, &hostLife{life: l, h: h.hostView})
	}
	a, b := lives[0], lives[1]
	port := spec(func(s *corev1.PodSpec) {
		s.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 18080, Protocol: corev1.ProtocolTCP}}
	})
	forever := []string{"sleep", "3600"}

	first := a.create(a.pod(forever, requests("500m", "16Mi"), port))
	a.until("Ready", isReady)
	a.weighs(first, 512)
	second := b.create(b.pod(forever, requests("250m", "16Mi"), port))
	b.event(second, "InsufficientCapacity", fmt.Sprintf(
		"host port TCP 18080 is taken by pod %s/%s of node %s, which has the same host", first.Namespace, first.Name,
		a.n.identity(),
	))
	if left := h.sandboxes(t, string(second.UID)); len(left) > 0 {
		t.Errorf("it has %d sandboxes", len(left))
	}
	b.must(b.pods().Delete(t.Context(), second.Name, metav1.DeleteOptions{}))
	b.untilGone(second.Name)

	second = b.create(b.pod(forever, requests("250m", "16Mi")))
	b.until("Ready", isReady)
	b.weighs(second, 512+256)
	for i, l := range lives {
		other := lives[1-i].n
		if out := l.n.doctor(); !strings.Contains(out, "pods of "+other.identity()+
			" are on this host too; the parts of all must not add up") {
			t.Errorf("doctor of %s does not tell of %s:\n%s", l.n.name, other.name, out)
		}
	}
	a.n.edit("capacity: {cpu: 64, memory: 256Gi, pods: 500}", "capacity: {pods: 500}")
	if out := a.n.doctor(); !strings.Contains(out, "pods of "+b.n.identity()+
		" are on this host too, and this node offers all that it has") {
		t.Errorf("doctor does not refuse a node that offers all of a shared host:\n%s", out)
	}

	a.must(a.pods().Delete(t.Context(), first.Name, metav1.DeleteOptions{}))
	a.untilGone(first.Name)
	b.weighs(second, 256)
	b.must(b.pods().Delete(t.Context(), second.Name, metav1.DeleteOptions{}))
	b.untilGone(second.Name)
	h.empty(t)
}

// weighs waits until the class of a pod has so many CPU shares.
func (l *hostLife) weighs(pod *corev1.Pod, want int64) {
	l.Helper()
	pod, err := l.pods().Get(l.Context(), pod.Name, metav1.GetOptions{})
	l.must(err)
	class := path.Dir(l.h.cgroup(pod))
	wait.For(l.T, patience, fmt.Sprintf("%d shares of %s", want, class), func() error {
		got, err := l.cgroupValue("cpu", class, "cpu.shares")
		if err == nil && got != want && got != sharesOf(weightOf(want)) {
			err = fmt.Errorf("there are %d", got)
		}
		return err
	})
}

// identity is the node's on its remote.
func (n *node) identity() string {
	n.t.Helper()
	node, err := n.c.client.CoreV1().Nodes().Get(n.t.Context(), n.name, metav1.GetOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	return node.Annotations["burstlet.dev/identity"]
}

// doctor is what burstlet doctor says of the node.
func (n *node) doctor() string {
	n.t.Helper()
	out, err := exec.CommandContext(n.t.Context(), launch.Program(n.t), "doctor", "--config", n.config).CombinedOutput()
	if err != nil && len(out) == 0 {
		n.t.Fatal(err)
	}
	return string(out)
}
