package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/burstlet/burstlet/test/parts/remotehost"
)

// Backends that a cluster's node can have.
const (
	// BackendCRI is containers on a host that is reached over SSH.
	BackendCRI = "cri"
	// BackendECS is tasks on an ECS of the tests that runs containers.
	BackendECS = "ecs"
	// BackendKubelet is none of burstlet's: the node is a real kubelet's, on a host like
	// that of BackendCRI. It tells what a kubelet passes on this platform.
	BackendKubelet = "kubelet"
)

// remote is where the node's pods run. The machine reaches them, and they reach it.
type remote interface {
	// gateway is the machine's address as pods reach it.
	gateway() string
	// section is the value of backend in burstlet's configuration, and node what the
	// node is beside its name and address.
	section() string
	node() string
	// env are variables of burstlet's process.
	env() []string
	// cut makes the way to it a black hole, and returns what ends that.
	cut() (restore func(), err error)
	stop(ctx context.Context) error
}

// startRemote starts the remote of a backend with the images of the suite.
func (c *Cluster) startRemote(ctx context.Context) (remote, error) {
	all, err := suiteImages(c.cfg.Programs)
	if err != nil {
		return nil, err
	}
	switch c.cfg.Backend {
	case BackendECS:
		return startTasks(ctx, c.cfg, all)
	case BackendCRI, BackendKubelet, "":
		return startHost(ctx, c.cfg.Dir, all)
	}
	return nil, fmt.Errorf("backend %q is none of %s, %s, %s", c.cfg.Backend, BackendCRI, BackendECS, BackendKubelet)
}

// sshHost is a host that is reached over SSH.
type sshHost struct {
	*remotehost.Host
	log *os.File
}

// startHost starts a host that the machine's network reaches.
func startHost(ctx context.Context, dir string, all map[string]v1.Image) (remote, error) {
	log, err := os.Create(filepath.Join(dir, "host.log"))
	if err != nil {
		return nil, fmt.Errorf("make the host's log: %w", err)
	}
	host, err := remotehost.Start(ctx, remotehost.Config{Log: log})
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	h := &sshHost{host, log}
	if err := h.prepare(ctx, all); err != nil {
		return nil, errors.Join(err, h.stop(context.WithoutCancel(ctx)))
	}
	return h, nil
}

func (h *sshHost) prepare(ctx context.Context, all map[string]v1.Image) error {
	if err := h.Join(ctx); err != nil {
		return err
	}
	if err := serveUpstream(ctx, h.Host, all); err != nil {
		return fmt.Errorf("serve images: %w", err)
	}
	return importAll(ctx, h.Host, all)
}

// gateway is one that pods reach, for tests that ask the API from within.
func (h *sshHost) gateway() string { return h.Gateway().String() }

func (h *sshHost) section() string {
	return fmt.Sprintf("{type: cri, cri: {endpoint: %q, ssh: {keyFiles: [%q], knownHostsFile: %q}}}",
		h.Endpoint(), h.KeyFile(), h.KnownHostsFile())
}

func (h *sshHost) node() string  { return "" }
func (h *sshHost) env() []string { return nil }

func (h *sshHost) cut() (restore func(), err error) {
	link := h.Link()
	link.Cut()
	return func() {
		link.Reset()
		link.Restore()
	}, nil
}

func (h *sshHost) stop(ctx context.Context) error {
	return errors.Join(h.Stop(ctx), h.log.Close())
}
