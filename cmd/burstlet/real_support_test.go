package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/burstlet/burstlet/backend/sim"
	"github.com/burstlet/burstlet/backend/sim/simrpc"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/test/kit/background"
	"github.com/burstlet/burstlet/test/kit/link"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/controlplane"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

var plane cptest.Shared

func TestMain(m *testing.M) { os.Exit(plane.Main(m)) }

func local(scheme string, port int, path string) string {
	return fmt.Sprintf("%s://127.0.0.1:%d%s", scheme, port, path)
}

// patience is how long a step may take, on a machine with other work.
const patience = 3 * time.Minute

// stage is a real control plane with a simulated remote beside it.
type stage struct {
	t      *testing.T
	cp     *controlplane.ControlPlane
	admin  kubernetes.Interface
	remote *sim.Remote
	socket string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	cp := plane.Get(t)
	s := &stage{
		t: t, cp: cp, admin: cptest.Client(t, cp.AdminConfig()), remote: sim.New(sim.Config{Record: true}),
		socket: filepath.Join(t.TempDir(), "s"),
	}
	l, err := simrpc.Listen(t.Context(), s.socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &simrpc.Server{Open: s.remote.BackendFor, Version: programVersion()}
	background.Run(t, func(ctx context.Context) error { return server.Serve(ctx, l) })
	return s
}

func (s *stage) nodeKubeconfig(node string) string {
	s.t.Helper()
	return cptest.NodeKubeconfig(s.t, s.cp, node)
}

// configure loads a file; %SOCKET% and %CA% stand for the remote and the cluster's
// CA.
func (s *stage) configure(yaml string) config.Configuration {
	s.t.Helper()
	head := "apiVersion: burstlet.dev/v1alpha1\nkind: BurstletConfiguration\n"
	yaml = strings.NewReplacer("%SOCKET%", "unix://"+s.socket, "%CA%", s.cp.CAFile()).Replace(yaml)
	path := filepath.Join(s.t.TempDir(), "burstlet.yaml")
	if err := os.WriteFile(path, []byte(head+yaml), 0o600); err != nil {
		s.t.Fatal(err)
	}
	cfg, err := config.Load(config.Sources{File: path})
	if err != nil {
		s.t.Fatal(err)
	}
	return cfg
}

// process is a burstlet within the test.
type process struct {
	t    *testing.T
	stop context.CancelFunc
	done chan error
	once sync.Once
}

func (s *stage) run(cfg config.Configuration) *process {
	s.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	p := &process{t: s.t, stop: stop, done: make(chan error, 1)}
	go func() { p.done <- untilItEnds(ctx, cfg) }()
	s.t.Cleanup(p.end)
	return p
}

// untilItEnds runs a process as a Deployment does: one whose remote does not answer within 3 s,
// which a busy machine takes now and then, has ended, and is started again.
func untilItEnds(ctx context.Context, cfg config.Configuration) (err error) {
	for range 5 {
		if err = runNodes(ctx, cfg); err == nil || !strings.Contains(err.Error(), "reach the sim backend") {
			break
		}
	}
	return err
}

func (p *process) end() {
	p.t.Helper()
	p.once.Do(func() {
		p.stop()
		if err := ended(p.t, p.done); err != nil {
			p.t.Errorf("burstlet ended with %v", err)
		}
	})
}

// ended is what a process returned. One that does not end fails the test, which then says what
// it waits for.
func ended(t *testing.T, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		var stacks strings.Builder
		err := pprof.Lookup("goroutine").WriteTo(&stacks, 1)
		t.Errorf("burstlet did not end (%v):\n%s", err, stacks.String())
		return nil
	}
}

func (s *stage) ready(node string) {
	s.t.Helper()
	wait.Node(s.t, s.admin, node, patience, "Ready", wait.NodeReady)
}

func (s *stage) podReady(name string) {
	s.t.Helper()
	wait.Pod(s.t, s.admin, "default", name, patience, "Ready", wait.PodReady)
}

func (s *stage) pod(node, name string) *corev1.Pod {
	s.t.Helper()
	no := false
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeName: node, AutomountServiceAccountToken: &no,
			Containers:  []corev1.Container{{Name: "c", Image: "busybox", Command: []string{"sleep", "infinity"}}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}
	wait.For(s.t, patience, "make pod "+name, func() (err error) { // once the ServiceAccount is there
		pod, err = s.admin.CoreV1().Pods("default").Create(s.t.Context(), pod, metav1.CreateOptions{})
		return err
	})
	s.t.Cleanup(func() {
		zero := int64(0)
		_ = s.admin.CoreV1().Pods("default").Delete(
			context.Background(), name, metav1.DeleteOptions{GracePeriodSeconds: &zero},
		)
	})
	return pod
}

// tunnel is a way to the API server that can be made silent.
func (s *stage) tunnel() *link.Link {
	s.t.Helper()
	return link.ForTest(s.t, link.To(strings.TrimPrefix(s.cp.URL(), "https://")))
}

var errNotYet = errors.New("not yet")
