package containerhost

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/images"
)

// readyTimeout bounds how long a host may take to become ready.
const readyTimeout = time.Minute

// Host is a running containerd with its namespaces. Its methods may be called
// by many goroutines, but Stop, KillContainerd and StartContainerd by one.
type Host struct {
	layout     layout
	lock       *os.File
	subnet     *claim
	linkNet    *claim // nil unless linked
	supervisor *supervisor
	conn       *grpc.ClientConn
	runtime    runtimeapi.RuntimeServiceClient
	images     runtimeapi.ImageServiceClient
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
	if err := sweep(os.TempDir()); err != nil {
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
	if err := h.layout.writeCNIConfig(h.subnet.prefix); err != nil {
		return err
	}
	hostname := cfg.Hostname
	if hostname == "" {
		hostname = "containerhost"
	}
	var err error
	if h.supervisor, err = startSupervisor(ctx, h.layout.dir, hostname, cfg.Log); err != nil {
		return err
	}
	streamAddress := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if cfg.Linked {
		if streamAddress, err = h.link(ctx); err != nil {
			return err
		}
	}
	if err := h.layout.writeContainerdConfig(cniBinDir(), h.supervisor.snapshotter, streamAddress.String()); err != nil {
		return err
	}
	if err := h.connect(); err != nil {
		return err
	}
	if err := h.StartContainerd(ctx); err != nil {
		return err
	}
	return h.importImages(ctx)
}

// takeDir makes the state directory, locks it and makes what the machine
// mounts below it visible to the host.
func (h *Host) takeDir(dir string) error {
	var err error
	if dir == "" {
		dir, err = os.MkdirTemp("", dirPrefix)
	} else {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return fmt.Errorf("make state directory: %w", err)
	}
	// Mounts are listed by their real path.
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return fmt.Errorf("resolve state directory: %w", err)
	}
	h.layout = layout{dir: dir}
	if h.lock, err = lockDir(dir); err != nil {
		return err
	}
	if err := os.WriteFile(h.layout.marker(), nil, 0o644); err != nil {
		return fmt.Errorf("mark state directory: %w", err)
	}
	// Pods of any user reach their volumes through it.
	if err := os.Chmod(dir, 0o755); err != nil {
		return fmt.Errorf("open state directory: %w", err)
	}
	if err := h.layout.makeDirs(); err != nil {
		return err
	}
	return shareMounts(dir)
}

func (h *Host) claimNetworks(cfg Config) error {
	var err error
	if cfg.Subnet.IsValid() {
		h.subnet, err = claimPrefix(cfg.Subnet)
	} else {
		h.subnet, err = claimFree(netip.AddrFrom4([4]byte{198, 18}), 24)
	}
	if err == nil && cfg.Linked {
		h.linkNet, err = claimFree(netip.AddrFrom4([4]byte{198, 19}), 30)
	}
	return err
}

// importImages builds the images and loads them, unpacked.
func (h *Host) importImages(ctx context.Context) error {
	all, err := images.All()
	if err != nil {
		return fmt.Errorf("build images: %w", err)
	}
	if err := images.WriteArchive(h.layout.archive(), all); err != nil {
		return err
	}
	if err := h.ImportImages(ctx, h.layout.archive()); err != nil {
		return err
	}
	for ref := range all {
		if err := h.awaitImage(ctx, ref); err != nil {
			return err
		}
	}
	return nil
}

// ImportImages loads an archive such as [images.WriteArchive] makes. CRI knows
// the images a moment later.
func (h *Host) ImportImages(ctx context.Context, archive string) error {
	ctr, err := lookPath("ctr")
	if err != nil {
		return fmt.Errorf("find ctr: %w", err)
	}
	cmd := exec.CommandContext(ctx, ctr, "--address", h.layout.socket(), "--namespace", "k8s.io",
		"images", "import", "--snapshotter", h.supervisor.snapshotter, archive)
	cmd.Env = hostEnv()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("import images: %w: %s", err, out)
	}
	return nil
}

// StartContainerd starts containerd where it was killed, and returns when it
// is ready to run pods.
func (h *Host) StartContainerd(ctx context.Context) error {
	if err := h.supervisor.startContainerd(ctx); err != nil {
		return fmt.Errorf("start containerd: %w", err)
	}
	return h.awaitReady(ctx)
}

// KillContainerd kills containerd (SIGKILL) and returns when it is gone.
// Containers live on.
func (h *Host) KillContainerd(ctx context.Context) error {
	if err := h.supervisor.killContainerd(ctx); err != nil {
		return fmt.Errorf("kill containerd: %w", err)
	}
	return nil
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
func (h *Host) Subnet() netip.Prefix { return h.subnet.prefix }

// Snapshotter is what containerd uses: "overlayfs", or "native" where the
// state directory's file system carries no overlays.
func (h *Host) Snapshotter() string { return h.supervisor.snapshotter }

// Pid is the machine's PID of the host's PID 1.
func (h *Host) Pid() int { return h.supervisor.cmd.Process.Pid }

// CRI returns clients of the runtime and image services. They last until Stop,
// also across restarts of containerd.
func (h *Host) CRI() (runtimeapi.RuntimeServiceClient, runtimeapi.ImageServiceClient) {
	return h.runtime, h.images
}
