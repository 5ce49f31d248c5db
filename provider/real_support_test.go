package provider_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/provider"
	"github.com/burstlet/burstlet/provider/kubeletapi"
	"github.com/burstlet/burstlet/test/kit/background"
	"github.com/burstlet/burstlet/test/kit/ports"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/controlplane"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

// The API server verifies our serving certificate, so that the names in it are
// tested too.
var plane = cptest.Shared{Config: controlplane.Config{VerifyKubelets: true}}

func TestMain(m *testing.M) { os.Exit(plane.Main(m)) }

// patience bounds what must not take long on a quiet machine.
const patience = 3 * time.Minute

// remote is a backend and an engine that has every pod's log say the same.
type remote struct {
	kubeletapi.Streams  // not called here
	kubeletapi.Measurer // not called here

	noNetwork atomic.Bool
	err       atomic.Pointer[error]
}

func (r *remote) Describe(context.Context) (backend.NodeFacts, error) {
	return backend.NodeFacts{
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
		},
		OS: "linux", Arch: "amd64", RuntimeVersion: "fake://1", NetworkReady: !r.noNetwork.Load(), Message: "none yet",
	}, nil
}

func (*remote) LastRelist() time.Time        { return time.Now() }
func (*remote) PodUID(backend.Ref) types.UID { return "" }

func (*remote) AwaitPod(context.Context, backend.Ref) error { return nil }

func (*remote) LastLoop() time.Time { return time.Now() }

func (*remote) Stats(context.Context, time.Duration) (backend.StatsFacts, error) {
	return backend.StatsFacts{}, backend.Errorf(backend.ErrUnsupported, "nothing is measured")
}

func (*remote) Pods(func(*corev1.Pod) bool) []*corev1.Pod { return nil }

func (*remote) SystemLog(context.Context, backend.SystemLogQuery) (io.ReadCloser, error) {
	return nil, backend.Errorf(backend.ErrUnsupported, "no logs of a host")
}

func (r *remote) ContainerLogs(
	ctx context.Context, ns, pod, container string, previous bool, opts backend.LogOptions,
) (io.ReadCloser, error) {
	if err := r.err.Load(); err != nil {
		return nil, *err
	}
	if ns != "default" || container != "c" {
		return nil, backend.Errorf(backend.ErrNotFound, "container %q not found in pod %q", container, pod)
	}
	text := fmt.Sprintf("log of %s previous=%v\n", pod, previous)
	if opts.Tail != nil && *opts.Tail == 0 {
		text = ""
	}
	if !opts.Follow {
		return io.NopCloser(strings.NewReader(text)), nil
	}
	pr, pw := io.Pipe()
	go func() {
		_, _ = io.WriteString(pw, text)
		<-ctx.Done()
		pw.CloseWithError(ctx.Err())
	}()
	return pr, nil
}

// station is a node that runs against the real API server.
type station struct {
	cp     *controlplane.ControlPlane
	name   string
	port   int
	admin  kubernetes.Interface
	remote *remote
	mu     sync.Mutex
	keys   map[string]int
}

func start(t *testing.T, name string, labels map[string]string) *station {
	t.Helper()
	cp := plane.Get(t)
	cred, err := cp.NodeCredential(name)
	if err != nil {
		t.Fatal(err)
	}
	s := &station{
		cp: cp, name: name, port: ports.Free(t), admin: cptest.Client(t, cp.AdminConfig()), remote: &remote{},
		keys: map[string]int{},
	}
	client := cptest.Client(t, cred)
	pods, err := provider.NewPodInformer(client, name)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := cp.ServingCert("127.0.0.1", name)
	if err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	node, err := provider.New(provider.Config{
		NodeName: name, Client: client, Server: cp.URL(), Pods: pods,
		Enqueue: func(key string) { s.mu.Lock(); s.keys[key]++; s.mu.Unlock() },
		Engine:  s.remote, Backend: backend.Backend{Name: "fake", Node: s.remote},
		Node: provider.NodeOptions{InternalIP: "127.0.0.1", Labels: labels, Version: provider.KubeletVersion("0.1.0")},
		API: &kubeletapi.Options{
			Address:  fmt.Sprintf("127.0.0.1:%d", s.port),
			CertFile: write(t, "tls.crt", cert), KeyFile: write(t, "tls.key", key),
			ClientCAFile: cp.CAFile(),
		},
		Registerer: reg, Gatherer: reg,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.admin.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	background.Run(t, node.Run)
	wait.Node(t, s.admin, name, patience, "Ready", wait.NodeReady)
	return s
}

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (s *station) node(t *testing.T) *corev1.Node {
	t.Helper()
	node, err := s.admin.CoreV1().Nodes().Get(t.Context(), s.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// ready waits until the node's condition Ready has a status.
func (s *station) ready(t *testing.T, want corev1.ConditionStatus) {
	t.Helper()
	wait.Node(t, s.admin, s.name, patience, "Ready "+string(want), func(node *corev1.Node) error {
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == want {
				return nil
			}
		}
		return fmt.Errorf("conditions %v", node.Status.Conditions)
	})
}

// call asks the kubelet API directly.
func (s *station) call(t *testing.T, path, cn string, groups ...string) (int, string) {
	t.Helper()
	pool := x509.NewCertPool()
	pem, err := os.ReadFile(s.cp.CAFile())
	if err != nil || !pool.AppendCertsFromPEM(pem) {
		t.Fatal(err)
	}
	cfg := &tls.Config{RootCAs: pool}
	if cn != "" {
		cert, key, err := s.cp.ClientCert(cn, groups...)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	transport := &http.Transport{TLSClientConfig: cfg}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get(fmt.Sprintf("https://127.0.0.1:%d%s", s.port, path))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// pod makes a pod on the node and has it run, as far as the API is concerned.
func (s *station) pod(t *testing.T, name string) {
	t.Helper()
	ctx := t.Context()
	wait.For(t, patience, "make a pod", func() error { // once the ServiceAccount is there
		_, err := s.admin.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{
				NodeName: s.name, Containers: []corev1.Container{{Name: "c", Image: "busybox"}},
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			},
		}, metav1.CreateOptions{})
		return err
	})
	t.Cleanup(func() {
		zero := int64(0)
		if err := s.admin.CoreV1().Pods("default").Delete(context.Background(), name,
			metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
			t.Error(err)
		}
	})
}

func (s *station) kubectl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := s.cp.Command(ctx, args...).CombinedOutput()
	return string(out), err
}
