package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/burstlet/burstlet/test/kit/logs"
	"github.com/burstlet/burstlet/test/parts/controlplane"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

var plane cptest.Shared

func TestMain(m *testing.M) {
	args, err := auditArgs()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	plane.Config.APIServerArgs = args
	if err := letAllStand(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := plane.Main(m)
	if common.c != nil {
		common.c.changes.end()
	}
	for _, dir := range []string{program.dir, audit.dir} {
		if err := os.RemoveAll(dir); err != nil { // nothing, for ""
			fmt.Fprintln(os.Stderr, err)
		}
	}
	os.Exit(code)
}

// cluster is the shared control plane with an administrator's client.
type cluster struct {
	*controlplane.ControlPlane
	client kubernetes.Interface
	// via is where nodes reach the API server, if not at its own address.
	via string
	// changes tells of pods; nil where the API server is not always there.
	changes *podChanges
}

// common is the cluster of all tests that need none of their own.
var common struct {
	once sync.Once
	c    *cluster
	err  error
}

func theCluster(t *testing.T) *cluster {
	t.Helper()
	cp := plane.Get(t)
	common.once.Do(func() {
		cfg := cp.AdminConfig()
		cfg.QPS, cfg.Burst = 1000, 1000
		var client kubernetes.Interface
		if client, common.err = kubernetes.NewForConfig(cfg); common.err == nil {
			common.c = &cluster{ControlPlane: cp, client: client, changes: watchPods(client)}
		}
	})
	if common.err != nil {
		t.Fatal(common.err)
	}
	return common.c
}

// namespace makes one for a test, with its default service account.
func (c *cluster) namespace(t *testing.T, name string) string {
	t.Helper()
	ctx := t.Context()
	if _, err := c.client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.tell(t, name) })
	eventually(t, patience, "the default service account of "+name, func() error {
		_, err := c.client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return name
}

// gone is nil when the API has no pod of this name.
func (c *cluster) gone(t *testing.T, namespace, name string) error {
	t.Helper()
	pod, err := c.client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("pod %s is still there, %s", name, pod.Status.Phase)
}

// node is a burstlet process that can be killed and started again.
type node struct {
	t      *testing.T
	c      *cluster
	name   string
	config string
	env    []string
	port   int
	log    *lockedBuffer
	// within is a command that runs the process in its own stead.
	within []string

	cmd  *exec.Cmd
	done chan error
}

// lockedBuffer keeps what a process prints.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// newNode configures a node with a credential of its own; backend is the
// backend section of the configuration in YAML.
func newNode(t *testing.T, c *cluster, name, backend string, env ...string) *node {
	t.Helper()
	dir := t.TempDir()
	cred, err := c.NodeCredential(name)
	if err != nil {
		t.Fatal(err)
	}
	if c.via != "" {
		cred.Host = c.via
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig, cred); err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, c: c, name: name, config: filepath.Join(dir, "burstlet.yaml"), env: env, port: freePort(t), log: &lockedBuffer{}}
	yaml := fmt.Sprintf(`apiVersion: burstlet.dev/v1alpha1
kind: BurstletConfiguration
kubeconfig: %s
node: {name: %s, internalIP: 127.0.0.1, capacity: {cpu: 64, memory: 256Gi, pods: 500}}
kubeletAPI: {address: 127.0.0.1, port: %d, selfSigned: true, clientCAFile: %s}
client: {qps: 500, burst: 500}
logging: {level: debug}
backend:
%s`, kubeconfig, name, n.port, c.CAFile(), backend)
	if err := os.WriteFile(n.config, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n.cmd != nil {
			n.stop()
		}
		raced(t, "node "+name, n.log.String())
		logs.Show(t, "node "+name, n.log.String())
	})
	return n
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// freePort is one that nothing listens on, below those that the kernel gives away:
// from there another process's connection could take it before it is used.
func freePort(t *testing.T) int {
	t.Helper()
	const first, last, tries = 10000, 19999, 100 // the control plane's begin above
	var err error
	for range tries {
		port := first + rand.IntN(last-first+1)
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			return port
		}
	}
	t.Fatalf("no free port: %v", err)
	return 0
}

// start starts the process.
func (n *node) start() {
	n.t.Helper()
	argv := append(slices.Clone(n.within), burstlet(n.t), "run", "--config", n.config)
	n.cmd = exec.Command(argv[0], argv[1:]...)
	n.cmd.Env = append(os.Environ(), n.env...)
	n.cmd.Stdout, n.cmd.Stderr = n.log, n.log
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	cmd, done := n.cmd, make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	n.done = done
}

// kill ends the process with SIGKILL.
func (n *node) kill() {
	n.t.Helper()
	if err := n.cmd.Process.Kill(); err != nil {
		n.t.Error(err)
	}
	if err := <-n.done; err == nil {
		n.t.Error("a killed process ended well")
	}
	n.cmd = nil
}

// stop ends the process as an operator does, and wants it to end well.
func (n *node) stop() {
	n.t.Helper()
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		n.t.Errorf("end node %s: %v", n.name, err)
	}
	select {
	case err := <-n.done:
		if err != nil {
			n.t.Errorf("node %s ended with %v", n.name, err)
		}
	case <-time.After(patience):
		n.t.Errorf("node %s did not end within %s", n.name, patience)
		if err := n.cmd.Process.Kill(); err != nil {
			n.t.Error(err)
		}
		if err := <-n.done; err != nil {
			n.t.Log(err)
		}
	}
	n.cmd = nil
}

// ready waits until the API shows the node Ready.
func (n *node) ready() {
	n.t.Helper()
	eventually(n.t, patience, "node "+n.name+" Ready", func() error {
		node, err := n.c.client.CoreV1().Nodes().Get(n.t.Context(), n.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("conditions %v", node.Status.Conditions)
	})
}

// eventually polls until f has no error, often at first.
func eventually(t *testing.T, limit time.Duration, what string, f func() error) {
	t.Helper()
	poll(t, 50*time.Millisecond, limit, what, f)
}

// slowest is the pace to which a wait that goes on comes down: a hundred wait at once.
const slowest = time.Second

// poll is eventually with another pace to begin with.
func poll(t *testing.T, every, limit time.Duration, what string, f func() error) {
	t.Helper()
	await(t, nil, every, limit, what, f)
}

// await polls until f has no error. It looks at once when changed says that something
// did; changed may be nil.
func await(t *testing.T, changed func() <-chan struct{}, every, limit time.Duration, what string, f func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		var now <-chan struct{}
		if changed != nil {
			now = changed() // before f looks, so that nothing is missed
		}
		err := f()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %s: %v", what, limit, err)
		case <-now:
		case <-time.After(every):
			every = min(every*5/4, max(every, slowest))
		}
	}
}
