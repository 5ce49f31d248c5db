package containerhost

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/parts/remotehost/containerd"
	"github.com/burstlet/burstlet/test/parts/remotehost/namespaces"
)

// readyTimeout bounds how long a host may take to become ready.
const readyTimeout = 3 * time.Minute

// Host is a running containerd with its namespaces. Its methods may be called
// by many goroutines, but Stop, KillContainerd and StartContainerd by one.
type Host struct {
	layout      layout
	dir         *namespaces.Dir
	subnet      *namespaces.Claim
	linkNet     *namespaces.Claim // nil unless linked
	snapshotter string
	inside      *namespaces.Namespaces
	client      *containerd.Client
}

// Start makes a host and returns when its containerd has a network, runs
// pods and holds the images of package images. It needs root. What hosts of
// killed processes left behind is removed first. The host runs until
// [Host.Stop]; ctx bounds only the start.
func Start(ctx context.Context, cfg Config) (*Host, error) {
	if missing := Missing(); len(missing) > 0 {
		return nil, fmt.Errorf("packages are missing: %s", strings.Join(missing, ", "))
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("a container host needs root")
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := kind().Sweep(os.TempDir()); err != nil {
		return nil, fmt.Errorf("remove remains of earlier hosts: %w", err)
	}
	h := &Host{}
	if err := h.start(ctx, cfg); err != nil {
		// The caller's ctx may be what ended; cleaning up must not depend on it.
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
		defer cancel()
		return nil, errors.Join(fmt.Errorf("start container host: %w", err), h.Stop(stop))
	}
	return h, nil
}

func (h *Host) start(ctx context.Context, cfg Config) error {
	if err := h.takeDir(cfg.StateDir); err != nil {
		return err
	}
	if err := h.claimNetworks(cfg); err != nil {
		return err
	}
	if err := containerd.WriteCNIConfig(h.layout.cniConf(), h.subnet.Prefix); err != nil {
		return err
	}
	var err error
	if h.snapshotter, err = containerd.Snapshotter(h.layout.dir); err != nil {
		return err
	}
	if err := h.startInside(ctx, cfg); err != nil {
		return err
	}
	streamAddress := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if cfg.Linked {
		if streamAddress, err = h.link(ctx); err != nil {
			return err
		}
	}
	if err := h.layout.containerd(h.snapshotter, streamAddress.String()).WriteFile(h.layout.config()); err != nil {
		return err
	}
	h.client, err = containerd.Connect(func() *namespaces.Namespaces { return h.inside }, h.layout.socket)
	if err != nil {
		return err
	}
	if err := h.StartContainerd(ctx); err != nil {
		return err
	}
	return h.client.ImportAll(ctx, h.layout.archive(), h.layout.socket(), h.snapshotter)
}

//go:embed init.sh
var initScript string

func (h *Host) startInside(ctx context.Context, cfg Config) error {
	binary, err := namespaces.LookPath("containerd")
	if err != nil {
		return fmt.Errorf("find containerd: %w", err)
	}
	hostname := cfg.Hostname
	if hostname == "" {
		hostname = "containerhost"
	}
	h.inside, err = namespaces.Start(ctx, namespaces.Config{
		Dir: h.layout.dir, Setup: initScript, Args: []string{h.layout.dir, hostname, binary}, Log: cfg.Log,
	})
	return err
}

// takeDir makes the state directory, locks it and makes what the machine
// mounts below it visible to the host.
func (h *Host) takeDir(path string) error {
	var err error
	if h.dir, err = kind().Take(path); err != nil {
		return err
	}
	h.layout = layout{dir: h.dir.Path()}
	if err := h.layout.makeDirs(); err != nil {
		return err
	}
	return shareMounts(h.layout.dir)
}

func (h *Host) claimNetworks(cfg Config) error {
	var err error
	if cfg.Subnet.IsValid() {
		h.subnet, err = namespaces.ClaimPrefix(cfg.Subnet)
	} else {
		h.subnet, err = namespaces.ClaimFree(netip.AddrFrom4([4]byte{198, 18}), 24)
	}
	if err == nil && cfg.Linked {
		h.linkNet, err = namespaces.ClaimFree(netip.AddrFrom4([4]byte{198, 19}), 30)
	}
	return err
}

// ImportImages loads an archive such as [images.WriteArchive] makes. CRI knows
// the images a moment later.
func (h *Host) ImportImages(ctx context.Context, archive string) error {
	return containerd.Import(ctx, archive, h.layout.socket(), h.snapshotter)
}

// StartContainerd starts containerd where it was killed, and returns when it
// is ready to run pods.
func (h *Host) StartContainerd(ctx context.Context) error { return h.client.Start(ctx) }

// KillContainerd kills containerd (SIGKILL) and returns when it is gone.
// Containers live on.
func (h *Host) KillContainerd(ctx context.Context) error {
	return h.inside.KillDaemon(ctx, containerd.Daemon)
}

// ServeRegistry serves a registry at a free port of the host's loopback, where
// containerd finds it under its name. The server is the caller's to close.
func (h *Host) ServeRegistry(ctx context.Context, name string, handler http.Handler) (*http.Server, error) {
	listener, err := h.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve registry %s: %w", name, err)
	}
	if err := containerd.WriteRegistry(h.layout.registryConf(), name, listener.Addr().String()); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return containerd.ServeRegistry(listener, handler), nil
}

// UseRegistry makes containerd find a registry of that name at a numeric address
// that the host reaches, in plain HTTP.
func (h *Host) UseRegistry(name, address string) error {
	return containerd.WriteRegistry(h.layout.registryConf(), name, address)
}

// Socket is the CRI endpoint, "unix:///…"; containerd's own services (events,
// say) are served there too.
func (h *Host) Socket() string { return "unix://" + h.layout.socket() }

// StateDir is the directory that the machine and the host both see.
func (h *Host) StateDir() string { return h.layout.dir }

// LogRoot is an empty directory for the log directories of sandboxes. Log
// files have the same path on both sides.
func (h *Host) LogRoot() string { return h.layout.logs() }

// Shared is an empty directory for whatever else a client shares with its
// pods, volumes for instance. Mounts made there by the machine are seen inside.
// Other directories of the machine, /tmp above all, are not seen inside.
func (h *Host) Shared() string { return h.layout.shared() }

// Subnet is the network that pods get their addresses from.
func (h *Host) Subnet() netip.Prefix { return h.subnet.Prefix }

// Snapshotter is what containerd uses: "overlayfs", or "native" where the
// state directory's file system carries no overlays.
func (h *Host) Snapshotter() string { return h.snapshotter }

// Pid is the machine's PID of the host's PID 1.
func (h *Host) Pid() int { return h.inside.Pid() }

// CRI returns clients of the runtime and image services. They last until Stop,
// also across restarts of containerd.
func (h *Host) CRI() (runtimeapi.RuntimeServiceClient, runtimeapi.ImageServiceClient) {
	return h.client.Runtime, h.client.Images
}
