package backend

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestHostPortsAreThoseOfAPodsWholeLife(t *testing.T) {
	always, never := corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever
	with := func(policy *corev1.ContainerRestartPolicy, ports ...corev1.ContainerPort) corev1.Container {
		return corev1.Container{RestartPolicy: policy, Ports: ports}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{
			with(nil, corev1.ContainerPort{HostPort: 1}),
			with(&always, corev1.ContainerPort{HostPort: 2, ContainerPort: 20}),
			with(&never, corev1.ContainerPort{HostPort: 3}),
		},
		Containers: []corev1.Container{
			with(nil, corev1.ContainerPort{ContainerPort: 4}, corev1.ContainerPort{
				HostPort: 5, HostIP: "10.0.0.1", Protocol: corev1.ProtocolUDP,
			}),
			// It has rules of its own for restarts, and is no sidecar.
			with(&never, corev1.ContainerPort{HostPort: 6}),
		},
	}}
	want := []corev1.ContainerPort{
		{HostPort: 2, ContainerPort: 20, Protocol: corev1.ProtocolTCP},
		{HostPort: 5, HostIP: "10.0.0.1", Protocol: corev1.ProtocolUDP},
		{HostPort: 6, Protocol: corev1.ProtocolTCP},
	}
	if diff := cmp.Diff(want, HostPorts(pod)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if pod.Spec.InitContainers[1].Ports[0].Protocol != "" {
		t.Error("the pod itself was changed")
	}
}
