package namespaces

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Command prepares a command that runs inside, in all namespaces and with
// [Path]: "ip", "iptables", or anything else that is seen there. The command
// ends with the host, or with ctx.
func (n *Namespaces) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	enter := append([]string{
		"--target", strconv.Itoa(n.Pid()), "--mount", "--net", "--uts", "--ipc", "--pid", "--cgroup", "--", name,
	}, args...)
	// An unknown path lets the command itself report that nsenter is missing.
	nsenter, err := LookPath("nsenter")
	if err != nil {
		nsenter = "nsenter"
	}
	cmd := exec.CommandContext(ctx, nsenter, enter...)
	cmd.Env = Env()
	// nsenter has to fork to enter a PID namespace: end both.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// DialContext dials from inside. The address is numeric.
func (n *Namespaces) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	// A name would be looked up by threads that are not inside.
	if _, err := netip.ParseAddrPort(address); err != nil {
		return nil, fmt.Errorf("dial in host: %w", err)
	}
	var conn net.Conn
	err := n.inNetwork(func() (err error) {
		var dialer net.Dialer
		conn, err = dialer.DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// Listen listens inside. The address is numeric.
func (n *Namespaces) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	if _, err := netip.ParseAddrPort(address); err != nil {
		return nil, fmt.Errorf("listen in host: %w", err)
	}
	var listener net.Listener
	err := n.inNetwork(func() (err error) {
		var config net.ListenConfig
		listener, err = config.Listen(ctx, network, address)
		return err
	})
	return listener, err
}

// inNetwork calls f, which makes a socket, in the network namespace.
func (n *Namespaces) inNetwork(f func() error) error {
	done := make(chan error, 1)
	go func() { done <- inNetworkOf(n.Pid(), f) }()
	return <-done
}

// inNetworkOf borrows the thread it runs on; a thread that cannot be brought
// back stays locked, so that it ends with its goroutine.
func inNetworkOf(pid int, f func() error) error {
	runtime.LockOSThread()
	outside, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("open own network namespace: %w", err)
	}
	defer outside.Close() //nolint:errcheck // only read
	inside, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("open network namespace of host: %w", err)
	}
	defer inside.Close() //nolint:errcheck // only read
	if err := unix.Setns(int(inside.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter network namespace of host: %w", err)
	}
	err = f()
	if back := unix.Setns(int(outside.Fd()), unix.CLONE_NEWNET); back != nil {
		return errors.Join(err, fmt.Errorf("leave network namespace of host: %w", back))
	}
	runtime.UnlockOSThread()
	return err
}
