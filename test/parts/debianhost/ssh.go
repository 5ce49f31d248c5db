package debianhost

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/crypto/ssh"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/images"
	"github.com/burstlet/burstlet/test/parts/remotehost/containerd"
	"github.com/burstlet/burstlet/test/parts/remotehost/namespaces"
	"github.com/burstlet/burstlet/test/parts/sshkey"
)

// maxMessage is containerd's own bound, in bytes.
const maxMessage = 16 << 20

// trustHostKey writes the host's key into the file of known hosts, for its link and for
// its address.
func (h *Host) trustHostKey() error {
	var lines strings.Builder
	for _, address := range []string{h.link.Address(), h.sshd()} {
		line, err := sshkey.KnownHost(h.hostKey, address)
		if err != nil {
			return err
		}
		lines.WriteString(line)
	}
	if err := os.WriteFile(h.KnownHostsFile(), []byte(lines.String()), 0o644); err != nil {
		return fmt.Errorf("write known hosts: %w", err)
	}
	return nil
}

func (h *Host) sshd() string { return net.JoinHostPort(h.Address().String(), "22") }

func (h *Host) dialSSHD(ctx context.Context) (net.Conn, error) {
	return h.DialContext(ctx, "tcp", h.sshd())
}

// Command prepares a command that root runs on the host, past its link. When ctx ends it is
// no longer waited for, and may run on.
func (h *Host) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	line := quote(name)
	for _, arg := range args {
		line += " " + quote(arg)
	}
	cmd := exec.CommandContext(ctx, "nsenter", "--target", strconv.Itoa(h.inside.Load().Pid()), "--net", "--",
		"ssh", "-F", "none", "-i", h.KeyFile(), "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR",
		"-o", "UserKnownHostsFile="+h.KnownHostsFile(), "-o", "StrictHostKeyChecking=yes",
		"root@"+h.Address().String(), line)
	cmd.Env = namespaces.Env()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// quote makes one word of a shell's line of it.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// connect makes a client of containerd's socket; nothing is dialled before the first call.
func (h *Host) connect() (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///containerd",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithContextDialer(
			func(ctx context.Context, _ string) (net.Conn, error) { return h.dialSocket(ctx, containerdSocket) },
		))
	if err != nil {
		return nil, fmt.Errorf("make CRI client: %w", err)
	}
	return conn, nil
}

// tunnelled is a connection through an SSH connection that is only for it.
type tunnelled struct {
	net.Conn
	client *ssh.Client
	raw    net.Conn
}

// Close ends both; it does not wait for an answer.
func (t *tunnelled) Close() error {
	err := t.raw.Close()
	_ = t.client.Close() // what it would tell the host cannot arrive
	return err
}

// dialSocket dials a unix socket on the host, past its link.
func (h *Host) dialSocket(ctx context.Context, path string) (net.Conn, error) {
	key, err := os.ReadFile(h.KeyFile())
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	signer, err := ssh.ParsePrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("parse key: %w", err)
	}
	raw, err := h.dialSSHD(ctx)
	if err != nil {
		return nil, err
	}
	// The handshake knows no context.
	//nolint:errcheck,gosec // whoever waits gets the context's error
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	conn, channels, requests, err := ssh.NewClientConn(raw, h.sshd(), &ssh.ClientConfig{
		User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.FixedHostKey(h.hostKey),
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("log in: %w", err), raw.Close())
	}
	client := ssh.NewClient(conn, channels, requests)
	socket, err := client.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("dial %s: %w", path, err), client.Close())
	}
	through := &tunnelled{Conn: socket, client: client, raw: raw}
	h.socket.Store(through)
	return through, nil
}

// poll calls check until it succeeds, the host is gone or ctx ends.
func (h *Host) poll(ctx context.Context, what string, check func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	return wait.Until(ctx, what, func(ctx context.Context) error {
		err := check(ctx)
		if inside := h.inside.Load(); err != nil && !inside.Running(kernel) {
			cancel(fmt.Errorf("the host's kernel ended:\n%s", inside.Log()))
		}
		return err
	})
}

func (h *Host) awaitReady(ctx context.Context) error {
	runtime, _ := h.CRI()
	if err := h.poll(ctx, "containerd", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		return containerd.Ready(ctx, runtime)
	}); err != nil {
		return fmt.Errorf("%w; the console:\n%s", err, h.Log())
	}
	return nil
}

// importImages builds the images of package images and loads them.
func (h *Host) importImages(ctx context.Context) error {
	all, err := images.All()
	if err != nil {
		return fmt.Errorf("build images: %w", err)
	}
	archive := h.path("images.tar")
	if err := images.WriteArchive(archive, all); err != nil {
		return err
	}
	if err := h.ImportImages(ctx, archive); err != nil {
		return err
	}
	_, service := h.CRI()
	for ref := range all {
		if err := h.poll(ctx, "image "+
			ref, func(ctx context.Context) error { return containerd.HasImage(ctx, service, ref) }); err != nil {
			return err
		}
	}
	return nil
}

// ImportImages loads an archive such as [images.WriteArchive] makes. CRI knows the
// images a moment later.
func (h *Host) ImportImages(ctx context.Context, archive string) error {
	file, err := os.Open(archive)
	if err != nil {
		return fmt.Errorf("open images: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	cmd := h.Command(ctx, "ctr", "--namespace", "k8s.io", "images", "import", "-")
	cmd.Stdin = file
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("import images: %w: %s", err, out)
	}
	return nil
}
