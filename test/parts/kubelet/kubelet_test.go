package kubelet_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/kit/logs"
	"github.com/burstlet/burstlet/test/parts/controlplane"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
	"github.com/burstlet/burstlet/test/parts/images"
	"github.com/burstlet/burstlet/test/parts/kubelet"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

const (
	node = "kubelet-1"
	// patience bounds each step, on a machine that builds other packages meanwhile.
	patience = 5 * time.Minute
)

var kernelSettings = []string{"vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops"}

// TestPodLifeOnARealKubelet: a pod becomes Ready, is known to the host's runtime
// and goes; then the kubelet goes, and with its host all that was its.
func TestPodLifeOnARealKubelet(t *testing.T) {
	cluster := cptest.New(t, controlplane.Config{BindAddress: "0.0.0.0", WithoutScheduler: true})
	var cgroup string
	t.Run("life", func(t *testing.T) {
		host := remotehost.ForTest(t)
		cgroup = host.Cgroup()
		life(t, cluster, host)
	})
	if cgroup == "" {
		return // skipped or failed
	}
	if left, err := filepath.Glob("/sys/fs/cgroup/*/" + cgroup); err != nil || len(left) > 0 {
		t.Errorf("cgroups are left: %v, %v", left, err)
	}
}

func life(t *testing.T, cluster *controlplane.ControlPlane, host *remotehost.Host) {
	t.Helper()
	before := readSettings(t)
	var log lockedLog
	k := kubelet.ForTest(t, cluster, host, kubelet.Config{Node: node, Verbosity: 2, Log: &log})
	t.Cleanup(func() { logs.Show(t, "the kubelet", log.tail()) })
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", k.Pid()))
	if err != nil || filepath.Base(exe) != "kubelet" {
		t.Errorf("process %d is %q, %v", k.Pid(), exe, err)
	}
	client, err := kubernetes.NewForConfig(cluster.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	podLife(t, client, host)
	if !linked(t, host) {
		t.Error("the host has no link")
	}

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := k.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case <-k.Done():
	default:
		t.Error("Stop returned before the kubelet was gone")
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", k.Pid())); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("process of the kubelet: %v", err)
	}
	if linked(t, host) {
		t.Error("the link is left")
	}
	if after := readSettings(t); after != before {
		t.Errorf("kernel settings of the machine: %s, were %s", after, before)
	}
}

// podLife runs one pod from its creation to its end.
func podLife(t *testing.T, client kubernetes.Interface, host *remotehost.Host) {
	t.Helper()
	eventually(t, "node Ready", func(ctx context.Context) error {
		n, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("conditions %v", n.Status.Conditions)
	})
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "one"},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Name: "app", Image: images.BusyboxRef, Command: []string{"sh", "-c", "trap 'exit 0' TERM; sleep 100000 & wait"},
		}}},
	}
	made, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "pod Ready", func(ctx context.Context) error {
		p, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("status %+v", p.Status)
	})
	if got := sandboxes(t, host); len(got) != 1 || got[0].Metadata.Uid != string(made.UID) {
		t.Errorf("sandboxes of the host: %v", got)
	}
	if err := pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "pod gone", func(ctx context.Context) error {
		switch _, err := pods.Get(ctx, pod.Name, metav1.GetOptions{}); {
		case err == nil:
			return errors.New("it is there")
		case apierrors.IsNotFound(err):
			return nil
		default:
			return err
		}
	})
}

func sandboxes(t *testing.T, host *remotehost.Host) []*runtimeapi.PodSandbox {
	t.Helper()
	runtime, _ := host.CRI()
	reply, err := runtime.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return reply.Items
}

// linked says whether the host has its end of a link to the machine.
func linked(t *testing.T, host *remotehost.Host) bool {
	t.Helper()
	out, err := host.Command(t.Context(), "ip", "-o", "link").CombinedOutput()
	if err != nil {
		t.Fatalf("list links of host: %v: %s", err, out)
	}
	return strings.Contains(string(out), "machine")
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

func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within %s: %v", what, patience, err)
		}
	}
}

// lockedLog keeps what the kubelet prints.
type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedLog) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.text.String()
	return text[max(0, len(text)-8000):]
}
