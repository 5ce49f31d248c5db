package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/burstlet/burstlet/test/kit/launch"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/controlplane"
	"github.com/burstlet/burstlet/test/parts/kubelet"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

const (
	nodeName = "burstlet"
	// kubeletPort is where the suite looks for a kubelet, whatever the node says. The
	// address is the host's own.
	kubeletPort = 10250
	// readyTimeout bounds how long the node may take until the API shows it Ready.
	readyTimeout = 5 * time.Minute
	// stopTimeout bounds the end of everything.
	stopTimeout = 5 * time.Minute
)

// ClusterConfig says what to start.
type ClusterConfig struct {
	Programs Programs
	// Burstlet is the path of the program under test.
	Burstlet string
	// Backend is that of the node; "" is BackendCRI.
	Backend string
	// Task and ECS are, for BackendECS, the paths of burstlet's in-task binary and of
	// test/cmd/ecs.
	Task, ECS string
	// Kubelet is, for BackendKubelet, the path of a kubelet.
	Kubelet string
	// Dir is an existing directory for logs: burstlet.log, and host.log or ecs.log.
	Dir string
	// Log receives progress lines; nil: nothing is written.
	Log io.Writer
}

// Cluster is a control plane whose only node is burstlet. Its fields are filled one
// by one as the parts come up; Stop ends those that are there.
type Cluster struct {
	cfg    ClusterConfig
	remote remote
	plane  *controlplane.ControlPlane
	client kubernetes.Interface
	node   *node
	// kubelet is the node with BackendKubelet, beside a node that is never started.
	kubelet *kubelet.Kubelet
}

// Missing names the Debian packages that a cluster needs and that this machine
// lacks.
func Missing() []string { return append(remotehost.Missing(), missingPackages()...) }

// StartCluster starts a cluster and returns when its node is Ready and has the
// images. It needs root. ctx bounds the start, not the life.
func StartCluster(ctx context.Context, cfg ClusterConfig) (*Cluster, error) {
	if cfg.Log == nil {
		cfg.Log = io.Discard
	}
	if missing := Missing(); len(missing) > 0 {
		return nil, fmt.Errorf("packages are missing: %s", strings.Join(missing, ", "))
	}
	c := &Cluster{cfg: cfg}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	var err error
	if c.remote, err = c.startRemote(ctx); err != nil {
		return fmt.Errorf("start the remote: %w", err)
	}
	address := c.remote.gateway()
	if c.cfg.Backend == BackendKubelet {
		address = anyAddress // it has a way of its own to the machine
	}
	c.plane, err = controlplane.Start(ctx, controlplane.Config{
		Binaries: c.cfg.Programs.Plane, Log: c.cfg.Log, BindAddress: address,
	})
	if err != nil {
		return err
	}
	if c.client, err = kubernetes.NewForConfig(c.plane.AdminConfig()); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	if c.cfg.Backend == BackendKubelet {
		if err := c.startKubelet(ctx); err != nil {
			return err
		}
		return c.awaitReady(ctx)
	}
	if err := portIsFree(ctx, address); err != nil {
		return err
	}
	config, err := c.writeConfig(address)
	if err != nil {
		return fmt.Errorf("configure burstlet: %w", err)
	}
	c.node = newNode(launch.Config{
		Program: c.cfg.Burstlet, File: config, Env: c.remote.env(), LogFile: filepath.Join(c.cfg.Dir, "burstlet.log"),
	})
	if err := c.node.start(); err != nil {
		return err
	}
	return c.awaitReady(ctx)
}

// portIsFree fails when another kubelet answers where the suite looks for burstlet's: it
// would be the one under test.
func portIsFree(ctx context.Context, address string) error {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(kubeletPort)))
	if err != nil {
		return fmt.Errorf("take the port at which the suite looks for a kubelet (does this machine run one?): %w", err)
	}
	return l.Close()
}

// writeConfig writes burstlet's configuration, as a person would for a node of a
// whole cluster, beside the control plane's secrets, and returns its path.
func (c *Cluster) writeConfig(address string) (string, error) {
	credential, err := c.plane.NodeCredential(nodeName)
	if err != nil {
		return "", fmt.Errorf("make the node's credential: %w", err)
	}
	kubeconfig := filepath.Join(c.plane.StateDir(), nodeName+".kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig, credential); err != nil {
		return "", err
	}
	content := fmt.Sprintf(`apiVersion: burstlet.dev/v1alpha1
kind: BurstletConfiguration
kubeconfig: %q
node: {name: %s, taints: [], internalIP: %s%s}
kubeletAPI: {address: %s, port: %d, selfSigned: true, clientCAFile: %q}
clusterDNS: [10.96.0.10]
pods: {apiServer: %q}
logging: {level: debug}
eviction: {evictionHard: {}} # the machine may be fuller than a kubelet takes
backend: %s
`, kubeconfig, nodeName, address, c.remote.node(), address, kubeletPort, c.plane.CAFile(),
		strings.TrimPrefix(c.plane.URL(), "https://"), c.remote.section())
	path := filepath.Join(c.plane.StateDir(), "burstlet.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return "", fmt.Errorf("write configuration: %w", err)
	}
	return path, nil
}

// awaitReady waits until the API shows the node Ready.
func (c *Cluster) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	return wait.Until(ctx, "the node to be Ready", func(ctx context.Context) error {
		select {
		case err := <-c.node.failed:
			fail(err)
			return err
		default:
		}
		node, err := c.client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return wait.NodeReady(node)
	})
}

// Stop ends all parts and removes what they made but the logs. Its end is bounded,
// and by ctx.
func (c *Cluster) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	var errs []error
	if c.kubelet != nil {
		errs = append(errs, c.kubelet.Stop(ctx))
		c.node.watching.Wait()
	}
	if c.node != nil {
		errs = append(errs, c.node.stop(ctx))
	}
	if c.plane != nil {
		errs = append(errs, c.plane.Stop(ctx))
	}
	if c.remote != nil {
		errs = append(errs, c.remote.stop(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stop cluster: %w", err)
	}
	return nil
}
