package basecluster

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/test/kit/logs"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/binaries"
	"github.com/burstlet/burstlet/test/parts/controlplane"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
	"github.com/burstlet/burstlet/test/parts/images"
	"github.com/burstlet/burstlet/test/parts/kubelet"
	"github.com/burstlet/burstlet/test/parts/remotehost"
	"github.com/burstlet/burstlet/test/parts/remotehost/containerd"
)

const (
	// Node is the name of the node.
	Node = "base"
	// Patience bounds each wait, on a machine that builds other packages meanwhile.
	Patience = 5 * time.Minute
	// logTail is how much of a program's log a failed test shows, in bytes.
	logTail = 6000
)

// Config says what the cluster is like. Its zero value is a good one.
type Config struct {
	// Hosts are further names and addresses for the API server's certificate, for
	// those who reach it elsewhere than at [Cluster.Machine].
	Hosts []string
	// ControllerManagerArgs are further flags of the controller manager.
	ControllerManagerArgs []string
}

// Cluster is a running cluster.
type Cluster struct {
	*controlplane.ControlPlane
	// Host is the node, seen past Kubernetes, and Kubelet its kubelet.
	Host    *remotehost.Host
	Kubelet *kubelet.Kubelet
	// Client may do everything.
	Client kubernetes.Interface
}

// ForTest starts a cluster that lives as long as the test, and returns when its DNS
// answers. It skips the test with the reason where that cannot be (and fails it when
// BURSTLET_REQUIRE_REAL=1). The ends of the logs are shown when the test fails.
func ForTest(t testing.TB, cfg Config) *Cluster {
	t.Helper()
	containerd.Need(t, "base cluster", remotehost.Missing())
	proxy, dns := cptest.Tool(t, binaries.KubeProxy), cptest.Tool(t, binaries.CoreDNS)
	host := remotehost.ForTest(t, func(c *remotehost.Config) { c.Hostname = Node })
	if err := host.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := &Cluster{Host: host}
	c.ControlPlane = cptest.New(t, controlplane.Config{
		// The kubelet's own way to the machine is another than the pods'.
		BindAddress: "0.0.0.0", AdvertiseAddress: c.Machine().String(), APIServerHosts: cfg.Hosts,
		// Addresses of Services lead nowhere from here.
		APIServerArgs: []string{
			"--enable-aggregator-routing=true",
			"--enable-bootstrap-token-auth=true", // as kubeadm has it
		},
		ControllerManagerArgs: cfg.ControllerManagerArgs,
	})
	c.Client = cptest.Client(t, c.AdminConfig())
	log := &logs.Buffer{Keep: logTail}
	log.ShowAtFailure(t, "the kubelet")
	c.Kubelet = kubelet.ForTest(t, c.ControlPlane, host, kubelet.Config{Node: Node, Verbosity: 2, Log: log})
	c.startProxy(t, proxy)
	c.startDNS(t, dns)
	c.awaitNode(t)
	c.AwaitDeployment(t, metav1.NamespaceSystem, dnsName)
	return c
}

// Machine is this machine's address for the node and its pods.
func (c *Cluster) Machine() netip.Addr { return c.Host.Gateway() }

// Server is the API server's address for the node and its pods.
func (c *Cluster) Server() (string, error) {
	own, err := url.Parse(c.URL())
	if err != nil {
		return "", fmt.Errorf("parse address of the API server: %w", err)
	}
	return "https://" + net.JoinHostPort(c.Machine().String(), own.Port()), nil
}

// Inside is a credential for use on the node: it finds the API server from there.
func (c *Cluster) Inside(credential *rest.Config) (*rest.Config, error) {
	server, err := c.Server()
	if err != nil {
		return nil, err
	}
	inside := rest.CopyConfig(credential)
	inside.Host = server
	return inside, nil
}

// Import gives the node images, by their full names with tags.
func (c *Cluster) Import(t testing.TB, all map[string]v1.Image) {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "images.tar")
	if err := images.WriteArchive(archive, all); err != nil {
		t.Fatal(err)
	}
	c.ImportArchive(t, archive)
}

// ImportArchive gives the node the images of an archive.
func (c *Cluster) ImportArchive(t testing.TB, archive string) {
	t.Helper()
	if err := c.Host.ImportImages(t.Context(), archive); err != nil {
		t.Fatal(err)
	}
}

// Apply hands manifests to kubectl apply.
func (c *Cluster) Apply(t testing.TB, manifests string) {
	t.Helper()
	cmd := c.Command(t.Context(), "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifests)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("apply manifests: %v: %s", err, out)
	}
}

// awaitNode waits until pods are scheduled to the node, and its lease is kept.
func (c *Cluster) awaitNode(t testing.TB) {
	t.Helper()
	Await(t, "node "+Node+" to be Ready", func(ctx context.Context) error {
		node, err := c.Client.CoreV1().Nodes().Get(ctx, Node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := wait.NodeReady(node); err != nil {
			return err
		}
		_, err = c.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, Node, metav1.GetOptions{})
		return err
	})
}

// AwaitDeployment waits until a Deployment has rolled out.
func (c *Cluster) AwaitDeployment(t testing.TB, namespace, name string) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			c.describe(t, namespace, name)
		}
	})
	Await(t, "Deployment "+namespace+"/"+name, func(ctx context.Context) error {
		d, err := c.Client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		want, status := *d.Spec.Replicas, d.Status
		if status.ObservedGeneration < d.Generation || status.UpdatedReplicas != want || status.Replicas != want ||
			status.AvailableReplicas != want {
			return fmt.Errorf("status is %+v", status)
		}
		return nil
	})
}

// describe shows what there is to know of a Deployment that failed a test.
func (c *Cluster) describe(t testing.TB, namespace, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	for _, args := range [][]string{
		{"get", "pods", "--all-namespaces", "--output", "wide"},
		{"get", "events", "--namespace", namespace, "--sort-by", ".lastTimestamp"},
		{"logs", "--namespace", namespace, "deployment/" + name, "--all-pods", "--prefix", "--tail", "40"},
	} {
		out, err := c.Command(ctx, args...).CombinedOutput()
		t.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// Await polls until the check succeeds, and fails the test when it takes too long.
func Await(t testing.TB, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	if err := wait.Until(ctx, what, check); err != nil {
		t.Fatal(err)
	}
}
