package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/burstlet/burstlet/test/fakeaws/ecsprocess"
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
	plane  *controlplane.ControlPlane
	client kubernetes.Interface
	// dir is below the control plane's state directory, which goes with it, also
	// when the demo is killed: the next control plane removes it then.
	dir     string
	host    *remotehost.Host
	hostLog *os.File
	cloud   *cloud
	node    *child
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
	c.dir = filepath.Join(c.plane.StateDir(), "demo")
	files, err := fs.Sub(manifests, "manifests")
	if err != nil {
		return fmt.Errorf("find manifests: %w", err)
	}
	if err := os.CopyFS(c.dir, files); err != nil {
		return fmt.Errorf("write manifests: %w", err)
	}
	return nil
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
func (c *cluster) startNode(program string) error {
	credential, err := c.plane.NodeCredential(nodeName)
	if err != nil {
		return fmt.Errorf("make the node's credential: %w", err)
	}
	cfg := nodeConfig{kubeconfig: filepath.Join(c.dir, "node.kubeconfig"), clientCA: c.plane.CAFile()}
	if err := controlplane.WriteKubeconfig(cfg.kubeconfig, credential); err != nil {
		return fmt.Errorf("write the node's kubeconfig: %w", err)
	}
	if cfg.port, err = freePort(); err != nil {
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
	c.node, err = startChild("burstlet", program, []string{"run", "--config", c.configFile()}, c.nodeLog(), env...)
	return err
}

func (c *cluster) configFile() string { return filepath.Join(c.dir, "burstlet.yaml") }
func (c *cluster) nodeLog() string    { return filepath.Join(c.dir, "burstlet.log") }

// watch calls failed when a program ends that should not, until ctx ends.
func (c *cluster) watch(ctx context.Context, failed func(error)) {
	var watching sync.WaitGroup
	waits := []func(context.Context) error{c.plane.Wait, c.node.wait}
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

// down ends what runs, in order, and removes what it made. The end of force cuts
// all waiting short.
func (c *cluster) down(force context.Context) error {
	ctx, cancel := context.WithTimeout(force, stopTimeout)
	defer cancel()
	var errs []error
	if c.node != nil {
		errs = append(errs, c.node.stop(ctx))
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
	return errors.Join(errs...)
}
