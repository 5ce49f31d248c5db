package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/burstlet/burstlet/test/kit/child"
	"github.com/burstlet/burstlet/test/kit/launch"
	"github.com/burstlet/burstlet/test/kit/logs"
	"github.com/burstlet/burstlet/test/kit/ports"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/controlplane"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

var (
	plane cptest.Shared
	// scratch is a directory for what all tests share.
	scratch string
)

func TestMain(m *testing.M) {
	args, err := prepare()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	plane.Config.APIServerArgs = args
	if err := takeTurns(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := plane.Main(m)
	if err := os.RemoveAll(scratch); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// prepare makes scratch and returns flags of the API server.
func prepare() ([]string, error) {
	var err error
	if scratch, err = os.MkdirTemp("", "burstlet-e2e-"); err != nil {
		return nil, err
	}
	return auditArgs()
}

// cluster is the shared control plane with an administrator's client.
type cluster struct {
	*controlplane.ControlPlane
	client kubernetes.Interface
	// via is where nodes reach the API server, if not at its own address.
	via string
}

func theCluster(t *testing.T) *cluster {
	t.Helper()
	cp := plane.Get(t)
	return &cluster{ControlPlane: cp, client: cptest.Client(t, cp.AdminConfig())}
}

// namespace makes one for a test, with its default service account.
func (c *cluster) namespace(t *testing.T, name string) string {
	t.Helper()
	t.Cleanup(func() { c.tell(t, name) })
	return cptest.Namespace(t, c.client, name)
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

// noEvictions is a line of nodes' configurations: the machine may be fuller than a kubelet takes.
const noEvictions = "eviction: {evictionHard: {}}\n"

// node is a burstlet process that can be killed and started again.
type node struct {
	t      *testing.T
	c      *cluster
	name   string
	config string
	env    []string
	port   int
	log    logs.Buffer
	// within is a command that runs the process in its own stead.
	within []string
	// program is another burstlet than that of this tree.
	program string

	ran *child.Child
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
	n := &node{t: t, c: c, name: name, config: filepath.Join(dir, "burstlet.yaml"), env: env, port: ports.Free(t)}
	yaml := fmt.Sprintf(`apiVersion: burstlet.dev/v1alpha1
kind: BurstletConfiguration
kubeconfig: %s
node: {name: %s, internalIP: 127.0.0.1, capacity: {cpu: 64, memory: 256Gi, pods: 500}}
kubeletAPI: {address: 127.0.0.1, port: %d, selfSigned: true, clientCAFile: %s}
client: {qps: 500, burst: 500}
logging: {level: debug}
%sbackend:
%s`, kubeconfig, name, n.port, c.CAFile(), noEvictions, backend)
	if err := os.WriteFile(n.config, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n.ran != nil {
			n.stop()
		}
		logs.Show(t, "node "+name, n.log.String())
	})
	return n
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// start starts the process.
func (n *node) start() {
	n.t.Helper()
	var err error
	n.ran, err = launch.Run(launch.Config{
		Name: "node " + n.name, Program: cmp.Or(n.program, launch.Program(n.t)), File: n.config, Env: n.env, Within: n.within,
		Log: &n.log,
	})
	if err != nil {
		n.t.Fatal(err)
	}
}

// run starts the process and waits until its node is Ready.
func (n *node) run() {
	n.t.Helper()
	n.start()
	n.ready()
}

// kill ends the process with SIGKILL.
func (n *node) kill() {
	n.t.Helper()
	if err := n.ran.Kill(); err != nil {
		n.t.Error(err)
	}
	n.ran = nil
}

// stop ends the process as an operator does, and wants it to end well.
func (n *node) stop() {
	n.t.Helper()
	if err := n.ran.Stop(context.Background()); err != nil { // bounded by its grace
		n.t.Error(err)
	}
	n.ran = nil
}

// ready waits until the API shows the node Ready.
func (n *node) ready() {
	n.t.Helper()
	wait.Node(n.t, n.c.client, n.name, patience, "Ready", wait.NodeReady)
}
