package convert

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
)

func TestHostname(t *testing.T) {
	long := strings.Repeat("a", 62) + "-b"
	for want, set := range map[string]func(*corev1.Pod){
		"name-u1":               func(*corev1.Pod) {},
		"given":                 func(p *corev1.Pod) { p.Spec.Hostname = "given" },
		"over.ride":             func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.HostnameOverride = "given", new("over.ride") },
		"":                      func(p *corev1.Pod) { p.Spec.HostNetwork = true },
		strings.Repeat("a", 62): func(p *corev1.Pod) { p.Name = long },
	} {
		pod := fakecri.Pod("u1")
		set(pod)
		if got, err := hostname(pod, "cluster.local"); got != want || err != nil {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
}

func TestFullName(t *testing.T) {
	pod := fakecri.Pod("u1")
	pod.Spec.Hostname, pod.Spec.Subdomain = "db-0", "db"
	if name, err := hostname(pod, "cluster.local."); name != "db-0" || err != nil {
		t.Errorf("%q, %v", name, err)
	}
	pod.Spec.SetHostnameAsFQDN = new(true)
	if name, err := hostname(pod, "cluster.local."); name != "db-0.db.ns.svc.cluster.local" || err != nil {
		t.Errorf("%q, %v", name, err)
	}
	pod.Spec.Subdomain = strings.Repeat("d", 60)
	_, err := hostname(pod, "cluster.local")
	wantClass(t, err, backend.ErrInvalid)
	pod.Spec.HostnameOverride = new("own")
	if name, err := hostname(pod, "cluster.local"); name != "own" || err != nil {
		t.Errorf("%q, %v", name, err)
	}
}

func TestNamespaces(t *testing.T) {
	pod := fakecri.Pod("u1")
	if n := namespaces(pod); n.Pid != runtimeapi.NamespaceMode_CONTAINER || n.Ipc != runtimeapi.NamespaceMode_POD {
		t.Errorf("plain: %v", n)
	}
	pod.Spec.ShareProcessNamespace, pod.Spec.HostIPC, pod.Spec.HostNetwork = new(true), true, true
	if n := namespaces(pod); n.Pid != runtimeapi.NamespaceMode_POD || n.Ipc != runtimeapi.NamespaceMode_NODE ||
		n.Network != runtimeapi.NamespaceMode_NODE {
		t.Errorf("shared: %v", n)
	}
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
	if !sandboxSecurity(pod).Privileged {
		t.Error("the sandbox of a privileged container is not privileged")
	}
}
