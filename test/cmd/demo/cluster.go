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

	"github.com/burstlet/burstlet/test/containerhost"
	"github.com/burstlet/burstlet/test/controlplane"
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
	dir           string
	host          *containerhost.Host
	containerdLog *os.File
	node          *child
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

// startHost starts containerd.
func (c *cluster) startHost(ctx context.Context) error {
	if err := removeCgroups(cgroupRoot); err != nil {
		return fmt.Errorf("remove what a killed demo left: %w", err)
	}
	var err error
	if c.containerdLog, err = os.Create(filepath.Join(c.dir, "containerd.log")); err != nil {
		return fmt.Errorf("make containerd's log: %w", err)
	}
	if c.host, err = containerhost.Start(ctx, containerhost.Config{Log: c.containerdLog}); err != nil {
		return fmt.Errorf("start containerd: %w", err)
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
		cfg.host = &hostConfig{endpoint: c.host.Socket(), logs: c.host.LogRoot(), cgroup: ownCgroup()}
	}
	content, err := cfg.render()
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.configFile(), content, 0o600); err != nil {
		return fmt.Errorf("write burstlet's configuration: %w", err)
	}
	c.node, err = startChild("burstlet", program, []string{"run", "--config", c.configFile()}, c.nodeLog())
	return err
}

func (c *cluster) configFile() string { return filepath.Join(c.dir, "burstlet.yaml") }
func (c *cluster) nodeLog() string    { return filepath.Join(c.dir, "burstlet.log") }

// watch calls failed when a program ends that should not, until ctx ends.
func (c *cluster) watch(ctx context.Context, failed func(error)) {
	var watching sync.WaitGroup
	for _, wait := range []func(context.Context) error{c.plane.Wait, c.node.wait} {
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
			errs = append(errs, fmt.Errorf("stop containerd: %w", err))
		}
		errs = append(errs, removeCgroups(cgroupRoot))
	}
	if c.containerdLog != nil {
		errs = append(errs, c.containerdLog.Close())
	}
	if c.plane != nil {
		if err := c.plane.Stop(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop the control plane: %w", err))
		}
	}
	return errors.Join(errs...)
}
