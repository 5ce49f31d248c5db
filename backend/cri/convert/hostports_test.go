package convert

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend/cri/fakecri"
)

func TestPortsThatAPodClaims(t *testing.T) {
	pod := fakecri.Pod("u")
	if got := HostPorts(pod, "/logs"); got != nil {
		t.Errorf("a pod without ports claims %v", got)
	}
	always := corev1.ContainerRestartPolicyAlways
	ports := func(n int32) []corev1.ContainerPort { return []corev1.ContainerPort{{HostPort: n, HostIP: "10.0.0.1"}} }
	pod.Spec.InitContainers = []corev1.Container{{Ports: ports(1)}, {Ports: ports(2), RestartPolicy: &always}}
	pod.Spec.Containers[0].Ports = append(ports(3), corev1.ContainerPort{ContainerPort: 4})
	got := HostPorts(pod, "/logs")
	if len(got.Ports) != 2 || got.Ports[0].Number != 2 || got.Ports[1].Number != 3 || got.Ports[1].IP != "10.0.0.1" ||
		!strings.HasPrefix(got.Mark, "/logs/") {
		t.Errorf("it claims %+v", got)
	}
}
