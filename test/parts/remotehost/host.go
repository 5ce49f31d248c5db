package remotehost

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/kit/link"
	"github.com/burstlet/burstlet/test/parts/remotehost/containerd"
	"github.com/burstlet/burstlet/test/parts/remotehost/namespaces"
	"github.com/burstlet/burstlet/test/parts/statedir"
)

// readyTimeout bounds how long a host may take to become ready.
const readyTimeout = 3 * time.Minute

// Host is a running host. Its methods may be called by many goroutines, but
// those that start, stop or kill something by one.
type Host struct {
	cfg         Config
	layout      layout
	dir         *statedir.Dir
	subnet      *namespaces.Claim // of pods
	network     *namespaces.Claim // of eth0
	snapshotter string
	client      *containerd.Client
	link        *link.Link
	registries  []*served
	reached     []*link.Link

	// inside is replaced at a reboot; nil before the first start.
	inside atomic.Pointer[namespaces.Namespaces]
	on     bool
	bootID string
}

// Start makes a host and returns when sshd listens and containerd has a
// network, runs pods and holds the images of package images. It needs root. What
// hosts of killed processes left behind is removed first. The host runs until
// [Host.Stop]; ctx bounds only the start.
func Start(ctx context.Context, cfg Config) (*Host, error) {
	if missing := Missing(); len(missing) > 0 {
		return nil, fmt.Errorf("packages are missing: %s", strings.Join(missing, ", "))
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("a remote host needs root")
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := statedir.Sweep(os.TempDir(), dirPrefix, marker, reclaim); err != nil {
		return nil, fmt.Errorf("remove remains of earlier hosts: %w", err)
	}
	h := &Host{cfg: cfg}
	if err := h.start(ctx); err != nil {
		// The caller's ctx may be what ended; cleaning up must not depend on it.
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
		defer cancel()
		return nil, errors.Join(fmt.Errorf("start remote host: %w", err), h.Stop(stop))
	}
	return h, nil
}

func (h *Host) start(ctx context.Context) error {
	var err error
	if h.dir, err = statedir.Take(dirPrefix, marker, reclaim); err != nil {
		return err
	}
	h.layout = layout{dir: h.dir.Path}
	if h.subnet, err = namespaces.ClaimFree(netip.AddrFrom4([4]byte{198, 18}), 24); err != nil {
		return err
	}
	if h.network, err = namespaces.ClaimFree(netip.AddrFrom4([4]byte{198, 19}), 30); err != nil {
		return err
	}
	if err := h.shareDir(); err != nil {
		return err
	}
	if err := h.install(); err != nil {
		return err
	}
	if err := h.installContainerd(ctx, h.cfg.Containerd); err != nil {
		return err
	}
	if h.client, err = containerd.Connect(h.inside.Load, h.socket); err != nil {
		return err
	}
	if h.link, err = link.Listen(ctx, h.cfg.LinkAddress, h.dialSSHD); err != nil {
		return err
	}
	if err := h.TrustHostKey(); err != nil {
		return err
	}
	if err := h.PowerOn(ctx); err != nil {
		return err
	}
	return h.client.ImportAll(ctx, h.layout.archive(), h.socket(), h.snapshotter)
}

// install makes the host's disk.
func (h *Host) install() error {
	if err := h.mountDisk(); err != nil {
		return err
	}
	if err := h.fillDisk(); err != nil {
		return err
	}
	if err := h.makeUserKey(); err != nil {
		return err
	}
	if err := h.makeHostKey(); err != nil {
		return err
	}
	if err := h.SetSSHDOptions(h.cfg.SSHDOptions...); err != nil {
		return err
	}
	if err := containerd.WriteCNIConfig(h.layout.disk(cniConf), h.subnet.Prefix); err != nil {
		return err
	}
	var err error
	if h.snapshotter, err = containerd.Snapshotter(h.layout.disk("/")); err != nil {
		return err
	}
	streamAddress := "127.0.0.1"
	if h.cfg.Linked {
		streamAddress = h.Address().String()
	}
	return containerd.Config{
		Socket: containerdSocket, SocketGroup: containerdGID,
		CNIBin: containerd.CNIBinDir(), CNIConf: cniConf, RegistryConf: registryConf,
		Snapshotter: h.snapshotter, StreamAddress: streamAddress,
	}.WriteFile(h.layout.disk(containerdConfig))
}

//go:embed setup.sh
var setupScript string

// startInside makes the namespaces.
func (h *Host) startInside(ctx context.Context) error {
	sshdBinary, err := namespaces.LookPath(sshd)
	if err != nil {
		return fmt.Errorf("find sshd: %w", err)
	}
	if err := namespaces.MakeCgroups(h.layout.cgroup()); err != nil {
		return err
	}
	h.bootID = newBootID()
	address := h.Address().String() + "/" + strconv.Itoa(h.network.Prefix.Bits())
	inside, err := namespaces.Start(ctx, namespaces.Config{
		Dir: h.layout.dir, Setup: setupScript, Log: h.cfg.Log,
		Args: []string{
			h.layout.disk("/"), h.hostname(), sshdBinary, h.layout.cgroup(), h.bootID, address, h.layout.shared(),
		},
	})
	if err != nil {
		return errors.Join(err, namespaces.RemoveCgroupTrees(h.layout.cgroup()))
	}
	h.inside.Store(inside)
	h.on = true
	return nil
}

// StartContainerd starts containerd where it was killed, and returns when it
// is ready to run pods.
func (h *Host) StartContainerd(ctx context.Context) error { return h.client.Start(ctx) }

// KillContainerd kills containerd (SIGKILL) and returns when it is gone.
// Containers live on.
func (h *Host) KillContainerd(ctx context.Context) error {
	return h.inside.Load().KillDaemon(ctx, containerd.Daemon)
}

// AwaitFailure returns an error when containerd has ended by itself since the host was
// powered on, and nil when ctx ends or the host is powered off.
func (h *Host) AwaitFailure(ctx context.Context) error {
	return h.inside.Load().AwaitFailure(ctx, containerd.Daemon)
}

// ImportImages loads an archive such as [images.WriteArchive] makes. CRI knows
// the images a moment later.
func (h *Host) ImportImages(ctx context.Context, archive string) error {
	return containerd.Import(ctx, archive, h.socket(), h.snapshotter)
}

// Command prepares a command that runs inside the host, in all its namespaces.
// The command ends with the host, or with ctx.
func (h *Host) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return h.inside.Load().Command(ctx, name, args...)
}

// DialContext dials from inside the host's network: its pods, and its loopback,
// which the streaming server listens on unless Linked. The address is numeric.
func (h *Host) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	inside := h.inside.Load()
	if inside == nil {
		return nil, errors.New("the host was never on")
	}
	return inside.DialContext(ctx, network, address)
}

// Listen listens inside the host's network until it is closed or a reboot. The
// address is numeric.
func (h *Host) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	return h.inside.Load().Listen(ctx, network, address)
}

func (h *Host) dialSSHD(ctx context.Context) (net.Conn, error) {
	return h.DialContext(ctx, "tcp", sshdAddress())
}

// Endpoint is where Root is let in: "ssh://root@127.0.0.1:port", or at
// Config.LinkAddress.
func (h *Host) Endpoint() string { return h.EndpointOf(Root) }

// EndpointOf is where a user is let in.
func (h *Host) EndpointOf(user string) string { return "ssh://" + user + "@" + h.link.Address() }

// KeyFile is the private key, on the machine, that lets both users in.
func (h *Host) KeyFile() string { return h.layout.key() }

// KnownHostsFile holds, on the machine, the host's key for the address of its link.
func (h *Host) KnownHostsFile() string { return h.layout.knownHosts() }

// Link is the only way in, but for a host that is Linked or joined.
func (h *Host) Link() *link.Link { return h.link }

// CRI returns clients of the runtime and image services, for looking at the
// host past its link. They last until Stop, also across restarts and reboots.
func (h *Host) CRI() (runtimeapi.RuntimeServiceClient, runtimeapi.ImageServiceClient) {
	return h.client.Runtime, h.client.Images
}

// Socket is the path, on the machine, of containerd's socket, until a reboot: CRI and
// containerd's own services (events, say) are served there.
func (h *Host) Socket() string { return h.socket() }

func (h *Host) socket() string { return h.Path(containerdSocket) }

// Path is where the machine finds a path of the host, until a reboot. Symbolic
// links in it may lead out of the host.
func (h *Host) Path(path string) string { return fmt.Sprintf("/proc/%d/root%s", h.Pid(), path) }

// Shared is an empty directory for what a client on the machine shares with
// containerd: logs, volumes. It has the same path on both sides. Mounts that the machine
// makes below it are seen inside, never the reverse. It outlives reboots.
func (h *Host) Shared() string { return h.layout.shared() }

// Subnet is the network that pods get their addresses from.
func (h *Host) Subnet() netip.Prefix { return h.subnet.Prefix }

// Address is the host's own, on eth0.
func (h *Host) Address() netip.Addr { return h.network.Prefix.Addr().Next() }

// Hostname is the host's own name.
func (h *Host) Hostname() string { return h.hostname() }

func (h *Host) hostname() string {
	if h.cfg.Hostname != "" {
		return h.cfg.Hostname
	}
	return h.layout.cgroup()
}

// BootID is what the host has as its /proc/sys/kernel/random/boot_id.
func (h *Host) BootID() string { return h.bootID }

// Cgroup is the name, in every hierarchy of the machine, of the cgroup that the
// host sees as the root.
func (h *Host) Cgroup() string { return h.layout.cgroup() }

// CgroupRoot is where the machine finds what the host has at /sys/fs/cgroup, until a
// reboot.
func (h *Host) CgroupRoot() string { return h.Path("/sys/fs/cgroup") }

// Snapshotter is what containerd uses: "overlayfs", or "native" where the disk
// carries no overlays.
func (h *Host) Snapshotter() string { return h.snapshotter }

// Pid is the machine's PID of the host's PID 1, until a reboot.
func (h *Host) Pid() int { return h.inside.Load().Pid() }
