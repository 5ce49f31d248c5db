package cri

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// Nodes of one host, in one process or in several, give a port of the host to one pod: the
// other waits, and is told for whom.
func TestNodesOfOneHostShareItsPorts(t *testing.T) {
	w := newWorld(t)
	node := func(identity string) *remote {
		w.cfg.NodeIdentity, w.access = identity, here() // a process of its own
		r, _ := w.connect(t)
		return r
	}
	a, b := node("node-a"), node("node-b")
	on := func(uid string, port corev1.ContainerPort) backend.LaunchSpec {
		pod := testPod(uid)
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{port}
		return launchSpec(pod, 0)
	}
	must(t, pods{a}.Launch(t.Context(), t.Context(), on("a1", corev1.ContainerPort{ContainerPort: 80, HostPort: 8080})))
	taken := on("b1", corev1.ContainerPort{ContainerPort: 81, HostPort: 8080, Protocol: corev1.ProtocolTCP})
	err := pods{b}.Launch(t.Context(), t.Context(), taken)
	wantClass(t, err, backend.ErrCapacity)
	if err == nil || !strings.Contains(err.Error(), "host port TCP 8080 is taken by pod ns/name-a1 of node node-a") {
		t.Errorf("error %v", err)
	}
	must(t, pods{b}.Launch(t.Context(), t.Context(), on(
		"b2", corev1.ContainerPort{ContainerPort: 80, HostPort: 8080, Protocol: corev1.ProtocolUDP},
	)))
	must(t, pods{b}.Launch(t.Context(), t.Context(), on("b3", corev1.ContainerPort{ContainerPort: 8080})))
	must(t, pods{a}.Remove(t.Context(), on("a1", corev1.ContainerPort{}).Ref()))
	must(t, pods{b}.Launch(t.Context(), t.Context(), taken))
}
