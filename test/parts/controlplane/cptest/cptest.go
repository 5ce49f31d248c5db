// Package cptest gives tests a real control plane, or skips them and says what
// is missing. [New] starts one for one test; [Shared] is one for all tests of a
// package, started by the first that asks.
package cptest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/test/kit/need"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/binaries"
	"github.com/burstlet/burstlet/test/parts/controlplane"
)

const (
	// startTimeout bounds a start on a machine that builds other packages meanwhile.
	startTimeout = 5 * time.Minute
	stopTimeout  = 3 * time.Minute
)

// New starts a control plane for one test and stops it when the test ends. It
// skips the test when the programs are not built.
func New(t testing.TB, cfg controlplane.Config) *controlplane.ControlPlane {
	t.Helper()
	cp, err := start(cfg)
	check(t, err)
	t.Cleanup(func() {
		if err := stop(cp); err != nil {
			t.Error(err)
		}
	})
	return cp
}

// Shared is a control plane that the tests of a package share. The zero value
// is ready for use; see the example in package controlplane.
type Shared struct {
	// Config is what to start. Binaries are found when they are not given.
	Config controlplane.Config

	once sync.Once
	cp   *controlplane.ControlPlane
	err  error
}

// Get returns the control plane and starts it at the first call. It skips the
// test when the programs are not built, and fails it when the start failed.
func (s *Shared) Get(t testing.TB) *controlplane.ControlPlane {
	t.Helper()
	s.once.Do(func() { s.cp, s.err = start(s.Config) })
	check(t, s.err)
	return s.cp
}

// Main runs the tests, stops the control plane and returns the exit code for
// TestMain.
func (s *Shared) Main(m *testing.M) int {
	code := m.Run()
	// No test runs any more: whatever was started stays as it is.
	s.once.Do(func() { s.err = errors.New("all tests are done") })
	if s.cp == nil {
		return code
	}
	if err := stop(s.cp); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

func start(cfg controlplane.Config) (*controlplane.ControlPlane, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if cfg.Binaries == (controlplane.Binaries{}) {
		found, err := controlplane.FindBinaries(ctx, "")
		if err != nil {
			return nil, err
		}
		cfg.Binaries = found
	}
	return controlplane.Start(ctx, cfg)
}

func stop(cp *controlplane.ControlPlane) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return cp.Stop(ctx)
}

// check ends a test that has no control plane: skipped when nobody built it,
// failed otherwise.
func check(t testing.TB, err error) {
	t.Helper()
	need.Machine()
	switch {
	case err == nil:
	case errors.Is(err, binaries.ErrNotBuilt):
		need.Missing(
			t, "control plane binaries are not built: run make test (or go run ./test/cmd/controlplane build): %v", err,
		)
	default:
		t.Fatal(err)
	}
}

// Tool returns the path of a program in the cache, or ends a test without it as
// [need.Missing] does.
func Tool(t testing.TB, tool binaries.Tool) string {
	t.Helper()
	cache, err := binaries.NewCache(binaries.CacheConfig{})
	if err != nil {
		t.Fatal(err)
	}
	path, err := cache.Lookup(tool)
	if errors.Is(err, binaries.ErrNotBuilt) {
		command := "controlplane build --all"
		if slices.Contains([]binaries.Tool{binaries.E2E, binaries.Ginkgo, binaries.Agnhost, binaries.NoNewPrivs}, tool) {
			command = "conformance build"
		}
		if slices.Contains(binaries.Containerd17Tools(), tool) {
			command = "controlplane build --runtimes"
		}
		if slices.Contains(slices.Collect(maps.Values(binaries.OtherKubernetes())), tool) {
			command = "controlplane build --versions"
		}
		need.Missing(t, "%s is not built: run make gate (or go run ./test/cmd/%s): %v", tool, command, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Client is a client with a credential.
func Client(t testing.TB, credential *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(credential)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Kubeconfig writes a credential into a directory of the test's own and returns the
// file's path.
func Kubeconfig(t testing.TB, credential *rest.Config) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(path, credential); err != nil {
		t.Fatal(err)
	}
	return path
}

// NodeKubeconfig is Kubeconfig for a node.
func NodeKubeconfig(t testing.TB, cp *controlplane.ControlPlane, node string) string {
	t.Helper()
	credential, err := cp.NodeCredential(node)
	if err != nil {
		t.Fatal(err)
	}
	return Kubeconfig(t, credential)
}

// Namespace makes a namespace, waits for its default service account, which pods need,
// and returns its name.
func Namespace(t testing.TB, client kubernetes.Interface, name string) string {
	t.Helper()
	if _, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	wait.For(t, startTimeout, "the default service account of "+name, func() error {
		_, err := client.CoreV1().ServiceAccounts(name).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	return name
}
