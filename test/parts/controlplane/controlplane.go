package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"k8s.io/client-go/rest"
)

// ControlPlane is a running control plane. Its methods are safe for concurrent
// use; those that start and stop processes run one after the other.
type ControlPlane struct {
	cfg       Config
	dir       string
	removeDir bool
	lock      *os.File // held while the state directory is in use
	ca        *authority
	admin     *rest.Config
	apiPort   int
	failed    chan error // a process that ended by itself

	logMu sync.Mutex // two components start at once
	mu    sync.Mutex
	procs []*process // in the order of their start
	// releases give back the ports, also that of a stopped API server.
	releases []func() error
}

// URL returns the API server's address, on loopback where it listens there.
func (c *ControlPlane) URL() string {
	host := c.cfg.BindAddress
	if net.ParseIP(host).IsUnspecified() {
		host = loopback
	}
	return "https://" + net.JoinHostPort(host, strconv.Itoa(c.apiPort))
}

// StateDir returns the directory of data, keys and logs.
func (c *ControlPlane) StateDir() string { return c.dir }

// Kubectl returns the path of a kubectl.
func (c *ControlPlane) Kubectl() string { return c.cfg.Binaries.Kubectl }

// Command prepares a kubectl with the administrator's credential.
func (c *ControlPlane) Command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, c.Kubectl(), append([]string{"--kubeconfig", c.KubeconfigPath()}, args...)...)
}

// PIDs returns the processes that run, by component name.
func (c *ControlPlane) PIDs() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	pids := make(map[string]int, len(c.procs))
	for _, p := range c.procs {
		pids[p.name] = p.Pid()
	}
	return pids
}

// Wait blocks until ctx ends and returns nil, or until a process ends without
// having been stopped and returns how, with the end of its log.
func (c *ControlPlane) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-c.failed:
		return err
	}
}

// StopAPIServer ends the API server; its data stays in etcd. It does nothing
// when the API server is not running.
func (c *ControlPlane) StopAPIServer(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.index(apiServerName)
	if i < 0 {
		return nil
	}
	if err := c.procs[i].stop(ctx, stopGrace); err != nil {
		return fmt.Errorf("stop API server: %w", err)
	}
	c.procs = slices.Delete(c.procs, i, i+1)
	return nil
}

// StartAPIServer starts a stopped API server on the port it had and waits until
// it is ready.
func (c *ControlPlane) StartAPIServer(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.index(apiServerName) >= 0 {
		return errors.New("start API server: it is running")
	}
	if c.behindEtcd() == 0 {
		return errors.New("start API server: the control plane is stopped")
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.StartTimeout)
	defer cancel()
	p, err := c.launch(ctx, c.apiServer(), c.apiPort)
	if err != nil {
		return fmt.Errorf("start API server: %w", err)
	}
	// Behind etcd: it is stopped before etcd, and after the others.
	c.procs = slices.Insert(c.procs, c.behindEtcd(), p)
	return nil
}

// ReplaceAPIServer starts another API server, such as one of the next version, in place of
// the one that runs, with its data and on its port.
func (c *ControlPlane) ReplaceAPIServer(ctx context.Context, program string) error {
	if err := c.StopAPIServer(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	c.cfg.Binaries.APIServer = program
	c.mu.Unlock()
	return c.StartAPIServer(ctx)
}

// index returns where a component stands in procs, or -1.
func (c *ControlPlane) index(name string) int {
	return slices.IndexFunc(c.procs, func(p *process) bool { return p.name == name })
}

// Stop ends the processes in reverse order, each with SIGTERM and after a bounded
// wait, or when ctx ends, with SIGKILL. It removes the state directory when
// Start made it. A second call does nothing.
func (c *ControlPlane) Stop(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	errs := []error{stopAll(ctx, c.procs)}
	c.procs = nil
	for _, release := range c.releases {
		errs = append(errs, release())
	}
	c.releases = nil
	if c.removeDir {
		errs = append(errs, os.RemoveAll(c.dir))
		c.removeDir = false
	}
	if c.lock != nil {
		errs = append(errs, c.lock.Close())
		c.lock = nil
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stop control plane: %w", err)
	}
	return nil
}

// stopAll ends processes in reverse order.
func stopAll(ctx context.Context, procs []*process) error {
	var errs []error
	for _, p := range slices.Backward(procs) {
		errs = append(errs, p.stop(ctx, stopGrace))
	}
	return errors.Join(errs...)
}

// LogPath returns the log of a component, such as kube-apiserver.
func (c *ControlPlane) LogPath(component string) string {
	return filepath.Join(c.dir, component+".log")
}
