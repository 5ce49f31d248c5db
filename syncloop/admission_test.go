package syncloop_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend/sim"
	"github.com/burstlet/burstlet/syncloop"
)

// asksFor makes a pod ask for so much of the test node's 1000 CPUs.
func asksFor(cpu string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(cpu)}
	}
}

// A pod that is forced out of the API holds its room until it has ended. The one that
// replaces it waits for that: failed, its controller would make another, and so on.
func TestSuccessorWaitsForAForcedPod(t *testing.T) {
	each(t, sim.Config{}, func(t *testing.T, a *api) {
		a.create("p", "u1", "Always", asksFor("600"), "sh", "-c", "trap '' TERM; sleep infinity")
		a.create("other", "o", "Always", asksFor("300"), "sleep", "infinity")
		time.Sleep(5 * time.Second)
		a.force("p")
		a.create("p", "u2", "Always", asksFor("600"), "sleep", "infinity")
		a.create("given-up", "u3", "Always", asksFor("600"), "sleep", "infinity")
		a.create("too-big", "b", "Always", asksFor("900"), "sleep", "infinity")
		a.create("small", "s", "Always", asksFor("50"), "sleep", "infinity")
		time.Sleep(15 * time.Second) // it takes the 30 s of its grace to end
		a.phase("p", corev1.PodPending)
		a.phase("given-up", corev1.PodPending)
		a.phase("too-big", corev1.PodFailed) // there would not be room either way
		if e := a.event("p", "OutOfcpu"); !strings.Contains(e, "has not ended here yet") {
			t.Errorf("what it waits for is told so: %q", e)
		}
		a.delete("given-up", 30)
		time.Sleep(5 * time.Second)
		if a.get("given-up") != nil {
			t.Error("a pod that waited for room and was deleted is still there")
		}
		time.Sleep(20 * time.Second)
		a.phase("p", corev1.PodRunning)
		a.phase("small", corev1.PodRunning)
		a.phase("other", corev1.PodRunning)
	})
}

// So does the one of a pod with a port of the host, whose old process holds it: a StatefulSet's
// pod, forced away while its host was cut off, made its replacements fail for ever.
func TestSuccessorWaitsForTheHostPortOfAForcedPod(t *testing.T) {
	port := func(protocol corev1.Protocol) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080, Protocol: protocol}}
		}
	}
	each(t, sim.Config{}, func(t *testing.T, a *api) {
		open := node(a.remote.Backend())
		open.Admission.HostPorts = true
		a.setNode(func() syncloop.Node { return open })
		a.create("db-0", "u1", "Always", port(corev1.ProtocolTCP), "sh", "-c", "trap '' TERM; sleep infinity")
		time.Sleep(5 * time.Second)
		a.create("rival", "r", "Always", port(corev1.ProtocolTCP), "sleep", "infinity")
		time.Sleep(time.Second)
		a.force("db-0")
		a.create("db-0", "u2", "Always", port(corev1.ProtocolTCP), "sleep", "infinity")
		a.create("beside", "b", "Always", port(corev1.ProtocolUDP), "sleep", "infinity")
		time.Sleep(15 * time.Second) // it takes the 30 s of its grace to end
		a.phase("db-0", corev1.PodPending)
		a.phase("beside", corev1.PodRunning)
		if e := a.event("db-0", "NodePorts"); !strings.Contains(e, "has not ended here yet") {
			t.Errorf("what it waits for is told so: %q", e)
		}
		time.Sleep(25 * time.Second)
		a.phase("db-0", corev1.PodRunning)
		a.phase("rival", corev1.PodFailed) // the first had the port, and was wanted
	})
}

// Before the remote has described itself nobody knows what fits: pods wait.
func TestPodsWaitForTheNode(t *testing.T) {
	each(t, sim.Config{}, func(t *testing.T, a *api) {
		a.create("runs", "r", "Always", asksFor("600"), "sleep", "infinity")
		time.Sleep(5 * time.Second)
		a.stop()
		b := a.remote.Backend()
		unknown := node(b)
		unknown.Admission.Allocatable, unknown.Admission.OS = nil, ""
		a.setNode(func() syncloop.Node { return unknown })
		a.start(b)
		a.create("fits", "f", "Always", asksFor("300"), "sleep", "infinity")
		a.create("too-much", "t", "Always", asksFor("300"), "sleep", "infinity")
		a.create("deleted", "d", "Always", nil, "sleep", "infinity")
		a.create("forced", "x", "Always", nil, "sleep", "infinity")
		time.Sleep(10 * time.Second)
		a.delete("deleted", 30)
		a.force("forced")
		time.Sleep(30 * time.Second)
		a.phase("runs", corev1.PodRunning)
		a.phase("fits", corev1.PodPending)
		a.phase("too-much", corev1.PodPending)
		if a.get("deleted") != nil {
			t.Error("a deleted pod waits for the node")
		}
		a.delete("runs", 1)
		time.Sleep(10 * time.Second)
		if a.get("runs") != nil {
			t.Error("a pod that ran does not end while the node is not known")
		}
		a.create("last", "l", "Always", asksFor("600"), "sleep", "infinity")
		known := node(b)
		a.setNode(func() syncloop.Node { return known })
		time.Sleep(10 * time.Second)
		a.phase("fits", corev1.PodRunning)
		a.phase("too-much", corev1.PodRunning)
		a.phase("last", corev1.PodFailed) // it came last
		if pods := a.engine.Pods(nil); len(pods) != 3 {
			t.Errorf("the engine has %d pods, want 3", len(pods))
		}
	})
}
