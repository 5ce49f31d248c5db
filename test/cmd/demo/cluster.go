package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/burstlet/burstlet/test/fakeaws/ecsprocess"
	"github.com/burstlet/burstlet/test/kit/child"
	"github.com/burstlet/burstlet/test/kit/launch"
	"github.com/burstlet/burstlet/test/parts/controlplane"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

// stopTimeout bounds the end of everything.
const stopTimeout = 2 * time.Minute

//go:embed manifests
var manifests embed.FS

// cluster is all that the demo starts. Its fields are filled one by one as the
// parts come up; down ends those that are there.
type cluster struct {
	// plane is the demo's own control plane, and mine the user's cluster: one is nil.
	plane  *controlplane.ControlPlane
	mine   *mine
	client kubernetes.Interface
	// kubectlPath and kubeconfig, the value of $KUBECONFIG, are what kubectl is run with.
	kubectlPath, kubeconfig string
	// namespace holds what is shown.
	namespace string
	// dir is below the control plane's state directory, which goes with it, also
	// when the demo is killed: the next control plane removes it then. On the user's
	// cluster it stands alone.
	dir string
	// program is burstlet; scratch holds it where it has no other place.
	program, scratch string
	// unreached says that the user's API server cannot call burstlet.
	unreached bool
	// leave removes what was made in a cluster that stays, once burstlet has ended; nil
	// where nothing was.
	leave   func(context.Context) error
	host    *remotehost.Host
	hostLog *os.File
	cloud   *cloud
	node    *child.Child
	// releasePort gives the node's port back.
	releasePort func() error
}

// startPlane starts the control plane and writes the manifests to where kubectl
// will look for them. Progress goes to log.
func (c *cluster) startPlane(ctx context.Context, programs controlplane.Binaries, log io.Writer) error {
	var err error
	c.plane, err = controlplane.Start(ctx, controlplane.Config{Binaries: programs, Log: log})
	if err != nil {
		return err
	}
	if c.client, err = kubernetes.NewForConfig(c.plane.AdminConfig()); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	c.kubectlPath, c.kubeconfig = c.plane.Kubectl(), c.plane.KubeconfigPath()
	c.dir = filepath.Join(c.plane.StateDir(), "demo")
	return writeFiles(manifests, "manifests", c.dir)
}

// startHost starts a host with sshd and containerd.
func (c *cluster) startHost(ctx context.Context) error {
	var err error
	if c.hostLog, err = os.Create(filepath.Join(c.dir, "host.log")); err != nil {
		return fmt.Errorf("make the host's log: %w", err)
	}
	if c.host, err = remotehost.Start(ctx, remotehost.Config{Hostname: hostName, Log: c.hostLog}); err != nil {
		return fmt.Errorf("start the host: %w", err)
	}
	return nil
}

// startNode writes burstlet's configuration and starts it.
func (c *cluster) startNode() error {
	cfg, err := c.nodeAccess()
	if err != nil {
		return err
	}
	if cfg.port, c.releasePort, err = freePort(cfg.bind); err != nil {
		return err
	}
	if c.host != nil {
		cfg.host = &hostConfig{endpoint: c.host.Endpoint(), key: c.host.KeyFile(), knownHosts: c.host.KnownHostsFile()}
	}
	var env []string
	if c.cloud != nil {
		cfg.cloud = c.cloud.config()
		env = ecsprocess.Access()
	}
	content, err := cfg.render()
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.configFile(), content, 0o600); err != nil {
		return fmt.Errorf("write burstlet's configuration: %w", err)
	}
	c.node, err = launch.Run(launch.Config{Program: c.program, File: c.configFile(), Env: env, LogFile: c.nodeLog()})
	return err
}

// nodeAccess is how the node and the API server reach each other. On the user's
// cluster the node has its kubeconfig already.
func (c *cluster) nodeAccess() (nodeConfig, error) {
	if c.mine != nil {
		return nodeConfig{
			kubeconfig: c.nodeKubeconfig(), clientCA: c.clientCAFile(),
			address: c.mine.address, bind: c.mine.bind, election: demoName,
		}, nil
	}
	credential, err := c.plane.NodeCredential(nodeName)
	if err != nil {
		return nodeConfig{}, fmt.Errorf("make the node's credential: %w", err)
	}
	if err := controlplane.WriteKubeconfig(c.nodeKubeconfig(), credential); err != nil {
		return nodeConfig{}, fmt.Errorf("write the node's kubeconfig: %w", err)
	}
	return nodeConfig{kubeconfig: c.nodeKubeconfig(), clientCA: c.plane.CAFile(), address: loopback, bind: loopback}, nil
}

func (c *cluster) configFile() string { return filepath.Join(c.dir, "burstlet.yaml") }
func (c *cluster) nodeLog() string    { return filepath.Join(c.dir, "burstlet.log") }

// watch calls failed when a program ends that should not, until ctx ends.
func (c *cluster) watch(ctx context.Context, failed func(error)) {
	var watching sync.WaitGroup
	waits := []func(context.Context) error{c.node.Wait}
	if c.plane != nil {
		waits = append(waits, c.plane.Wait)
	}
	if c.mine != nil {
		waits = append(waits, c.keepToken)
	}
	if c.cloud != nil {
		waits = append(waits, c.cloud.wait)
	}
	for _, wait := range waits {
		watching.Go(func() {
			if err := wait(ctx); err != nil {
				failed(err)
			}
		})
	}
	watching.Wait()
}

// stopNode ends burstlet. How it ended is for its Err to say.
func (c *cluster) stopNode(ctx context.Context) error {
	err := c.node.Stop(ctx)
	select {
	case <-c.node.Done():
		return nil
	default:
		return err
	}
}

// down ends what runs, in order, and removes what it made. The end of force cuts
// all waiting short.
func (c *cluster) down(force context.Context) error {
	timeout := stopTimeout
	if c.leave != nil {
		timeout += leaveTimeout
	}
	ctx, cancel := context.WithTimeout(force, timeout)
	defer cancel()
	var errs []error
	if c.node != nil {
		errs = append(errs, c.stopNode(ctx))
	}
	if c.releasePort != nil {
		errs = append(errs, c.releasePort())
	}
	if c.leave != nil {
		errs = append(errs, c.leave(ctx))
	}
	if c.host != nil {
		if err := c.host.Stop(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop the host: %w", err))
		}
	}
	if c.cloud != nil {
		errs = append(errs, c.cloud.down(ctx))
	}
	if c.hostLog != nil {
		errs = append(errs, c.hostLog.Close())
	}
	if c.plane != nil {
		if err := c.plane.Stop(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop the control plane: %w", err))
		}
	}
	if c.mine != nil && c.dir != "" {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	if c.scratch != "" {
		errs = append(errs, os.RemoveAll(c.scratch))
	}
	return errors.Join(errs...)
}
