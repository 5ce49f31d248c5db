package debianhost

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/kit/link"
	"github.com/burstlet/burstlet/test/parts/remotehost/namespaces"
	"github.com/burstlet/burstlet/test/parts/statedir"
)

const (
	dirPrefix = "bldebian-"
	marker    = "debianhost"
	// kernel is the daemon that is the whole host.
	kernel = "kernel"
	// readyTimeout bounds how long a host may take to become ready, on a machine with
	// other work.
	readyTimeout = 10 * time.Minute
	// answerTimeout bounds a question to a host that may be going.
	answerTimeout = 20 * time.Second
)

// Config says what kind of host [Start] makes. Its zero value is a good one.
type Config struct {
	// Cgroupfs makes containerd's cgroups by hand; by default systemd makes them.
	Cgroupfs bool
	// Log gets what the host's console shows; nil discards it.
	Log io.Writer
}

// Host is a running host. Its methods may be called by many goroutines, but those that
// start or stop it by one.
type Host struct {
	cfg     Config
	dir     *statedir.Dir
	image   string
	hostKey ssh.PublicKey
	link    *link.Link
	conn    *grpc.ClientConn

	// inside is replaced when the host is powered on; nil before the first time.
	inside atomic.Pointer[namespaces.Namespaces]
	on     bool

	// socket is the way to containerd that conn has now; nil before its first call.
	socket atomic.Pointer[tunnelled]
}

// Start makes a host and returns when sshd answers and containerd has a network, runs
// pods and holds the images of package images. It needs root. The first one on a machine
// makes the disk, see [Image]. What hosts of killed processes left behind is removed
// first. The host runs until [Host.Stop]; ctx bounds only the start.
func Start(ctx context.Context, cfg Config) (*Host, error) {
	if missing := Missing(); len(missing) > 0 {
		return nil, fmt.Errorf("packages are missing: %s", strings.Join(missing, ", "))
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("a Debian host needs root")
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := statedir.Sweep(os.TempDir(), dirPrefix, marker, os.RemoveAll); err != nil {
		return nil, fmt.Errorf("remove remains of earlier hosts: %w", err)
	}
	h := &Host{cfg: cfg}
	if err := h.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start Debian host: %w", err), h.Stop())
	}
	return h, nil
}

func (h *Host) start(ctx context.Context) error {
	var err error
	if h.image, err = Image(ctx, h.cfg.Log); err != nil {
		return err
	}
	if h.dir, err = statedir.Take(dirPrefix, marker, os.RemoveAll); err != nil {
		return err
	}
	if err := h.writeSeed(); err != nil {
		return err
	}
	if h.link, err = link.Listen(ctx, netip.Addr{}, h.dialSSHD); err != nil {
		return err
	}
	if err := h.trustHostKey(); err != nil {
		return err
	}
	if h.conn, err = h.connect(); err != nil {
		return err
	}
	if err := h.PowerOn(ctx); err != nil {
		return err
	}
	return h.importImages(ctx)
}

func (h *Host) path(name string) string { return filepath.Join(h.dir.Path, name) }

//go:embed setup.sh
var setupScript string

// PowerOn boots a host that is off, and returns when sshd answers and containerd runs
// pods.
func (h *Host) PowerOn(ctx context.Context) error {
	if h.on {
		return errors.New("power on: the host is on")
	}
	inside, err := namespaces.Start(ctx, namespaces.Config{
		Dir: h.dir.Path, Setup: setupScript, Log: h.cfg.Log,
		Args: []string{h.image, h.path("disk"), h.path("seed.tar")},
	})
	if err != nil {
		return fmt.Errorf("power on: %w", err)
	}
	h.inside.Store(inside)
	h.on = true
	h.forget()
	h.link.Reset()
	if err := inside.StartDaemon(ctx, kernel); err != nil {
		return fmt.Errorf("power on: %w", err)
	}
	return h.awaitReady(ctx)
}

// PowerOff cuts the host's power: all ends at once, and what was not yet written to the
// disk is lost.
func (h *Host) PowerOff() error {
	if !h.on {
		return nil
	}
	h.on = false
	if err := h.inside.Load().Stop(); err != nil {
		return fmt.Errorf("power off: %w", err)
	}
	// Nobody cleans up after the kernel: its memory was a mount that went with it.
	if err := os.RemoveAll(h.path("memory")); err != nil {
		return fmt.Errorf("power off: %w", err)
	}
	return nil
}

// Reboot asks systemd to reboot, which ends all services in their order, and returns when
// the host is ready again.
func (h *Host) Reboot(ctx context.Context) error {
	before, err := h.BootID(ctx)
	if err != nil {
		return err
	}
	// The connection may end before the command has, or nobody may end it.
	asked, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	_ = h.Command(asked, "systemctl", "reboot").Run()
	if err := h.poll(ctx, "another boot", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		now, err := h.BootID(ctx)
		if err == nil && now == before {
			err = errors.New("the host has not rebooted yet")
		}
		return err
	}); err != nil {
		return err
	}
	h.forget()
	return h.awaitReady(ctx)
}

// forget ends connections to an earlier boot, which does not end them itself.
func (h *Host) forget() {
	if old := h.socket.Swap(nil); old != nil {
		_ = old.Close() // it leads nowhere any more
	}
}

// Stop removes the host and all that belongs to it.
func (h *Host) Stop() error {
	var errs []error
	if h.link != nil {
		errs = append(errs, h.link.Close())
	}
	if h.conn != nil {
		errs = append(errs, h.conn.Close())
	}
	errs = append(errs, h.PowerOff())
	if h.dir != nil {
		errs = append(errs, h.dir.Remove())
	}
	return errors.Join(errs...)
}

// Endpoint is where root is let in: "ssh://root@127.0.0.1:port".
func (h *Host) Endpoint() string { return "ssh://root@" + h.link.Address() }

// KeyFile is the private key, on the machine, that lets root in.
func (h *Host) KeyFile() string { return h.path("id_ed25519") }

// KnownHostsFile holds, on the machine, the host's key for the address of its link.
func (h *Host) KnownHostsFile() string { return h.path("known_hosts") }

// Link is the only way in for who does not know of the host's namespaces.
func (h *Host) Link() *link.Link { return h.link }

// CRI returns clients of the runtime and image services, for looking at the host past its
// link. They last until Stop, also across reboots.
func (h *Host) CRI() (runtimeapi.RuntimeServiceClient, runtimeapi.ImageServiceClient) {
	return runtimeapi.NewRuntimeServiceClient(h.conn), runtimeapi.NewImageServiceClient(h.conn)
}

// DialContext dials what the machine reaches of the host: its address. That is numeric.
func (h *Host) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	inside := h.inside.Load()
	if inside == nil {
		return nil, errors.New("the host was never on")
	}
	return inside.DialContext(ctx, network, address)
}

// Address is the host's own, on eth0. All Debian hosts have it, each in a network of its
// own.
func (h *Host) Address() netip.Addr { return netip.AddrFrom4([4]byte{198, 19, 0, 2}) }

// podSubnet is the network that pods get their addresses from.
func podSubnet() netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, 0, 0}), 24) }

// Hostname is the host's own name.
func (h *Host) Hostname() string {
	return "debian13-" + strings.TrimPrefix(filepath.Base(h.dir.Path), dirPrefix)
}

// BootID is the kernel's: another one after each reboot.
func (h *Host) BootID(ctx context.Context) (string, error) {
	out, err := h.Command(ctx, "cat", "/proc/sys/kernel/random/boot_id").Output()
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Log is the end of what the host's console showed.
func (h *Host) Log() string { return h.inside.Load().Log() }
