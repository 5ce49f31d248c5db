package install

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/images"
	"github.com/burstlet/burstlet/test/parts/remotehost"
	"github.com/burstlet/burstlet/test/world/basecluster"
)

// kernelSettings are those that a kubelet wants to write.
var kernelSettings = []string{"vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops"}

// podLife: a pod on the real kubelet becomes Ready, is known to the host's runtime and
// goes.
func podLife(t *testing.T, w *world) {
	pods := w.c.Client.CoreV1().Pods(metav1.NamespaceDefault)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "one"},
		Spec: corev1.PodSpec{NodeName: basecluster.Node, Containers: []corev1.Container{{
			Name: "app", Image: images.BusyboxRef, Command: []string{"sh", "-c", "trap 'exit 0' TERM; sleep 100000 & wait"},
		}}},
	}
	made, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wait.Pod(t, w.c.Client, made.Namespace, made.Name, basecluster.Patience, "Ready", wait.PodReady)
	if got := sandboxes(t, w.c.Host, string(made.UID)); len(got) != 1 {
		t.Errorf("sandboxes of the pod on the host: %v", got)
	}
	if err := pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wait.PodGone(t, w.c.Client, made.Namespace, made.Name, basecluster.Patience)
}

// sandboxes are those of a pod that the host's runtime knows.
func sandboxes(t *testing.T, host *remotehost.Host, uid string) []*runtimeapi.PodSandbox {
	t.Helper()
	runtime, _ := host.CRI()
	reply, err := runtime.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(reply.Items, func(s *runtimeapi.PodSandbox) bool { return s.Metadata.Uid != uid })
}

// linked says whether the host has its end of the kubelet's link to the machine.
func linked(t *testing.T, host *remotehost.Host) bool {
	t.Helper()
	out, err := host.Command(t.Context(), "ip", "-o", "link").CombinedOutput()
	if err != nil {
		t.Fatalf("list links of host: %v: %s", err, out)
	}
	return strings.Contains(string(out), ": machine@")
}

func readSettings(t *testing.T) string {
	t.Helper()
	var all []string
	for _, name := range kernelSettings {
		value, err := os.ReadFile(filepath.Join("/proc/sys", name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, name+"="+strings.TrimSpace(string(value)))
	}
	return strings.Join(all, " ")
}
