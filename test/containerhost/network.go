package containerhost

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Command prepares a command that runs inside the host, in all its namespaces
// and with its PATH: "ip", "iptables", or anything else of the machine's. The
// command ends with the host, or with ctx.
func (h *Host) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	pid := strconv.Itoa(h.supervisor.cmd.Process.Pid)
	enter := append([]string{"--target", pid, "--mount", "--net", "--uts", "--pid", "--", name}, args...)
	// An unknown path lets the command itself report that nsenter is missing.
	nsenter, err := lookPath("nsenter")
	if err != nil {
		nsenter = "nsenter"
	}
	cmd := exec.CommandContext(ctx, nsenter, enter...)
	cmd.Env = hostEnv()
	// nsenter has to fork to enter a PID namespace: end both.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// DialContext dials from inside the host's network: its pods, and its
// loopback, which the streaming server listens on. The address is numeric.
func (h *Host) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	// A name would be looked up by threads that are not inside.
	if _, err := netip.ParseAddrPort(address); err != nil {
		return nil, fmt.Errorf("dial in host: %w", err)
	}
	type result struct {
		conn net.Conn
		err  error
	}
	results := make(chan result, 1)
	go func() {
		conn, err := dialInside(ctx, h.supervisor.cmd.Process.Pid, network, address)
		results <- result{conn, err}
	}()
	got := <-results
	return got.conn, got.err
}

// dialInside borrows the thread it runs on; a thread that cannot be brought
// back stays locked, so that it ends with its goroutine.
func dialInside(ctx context.Context, pid int, network, address string) (net.Conn, error) {
	runtime.LockOSThread()
	outside, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
	if err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("open own network namespace: %w", err)
	}
	defer outside.Close() //nolint:errcheck // only read
	inside, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("open network namespace of host: %w", err)
	}
	defer inside.Close() //nolint:errcheck // only read
	if err := unix.Setns(int(inside.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("enter network namespace of host: %w", err)
	}
	var dialer net.Dialer
	conn, dialErr := dialer.DialContext(ctx, network, address)
	if err := unix.Setns(int(outside.Fd()), unix.CLONE_NEWNET); err != nil {
		return conn, errors.Join(dialErr, fmt.Errorf("leave network namespace of host: %w", err))
	}
	runtime.UnlockOSThread()
	return conn, dialErr
}

// linkName is the machine's end of the link: at most 15 bytes, one per host.
func linkName(dir string) string {
	return fmt.Sprintf("blh-%08x", crc32.ChecksumIEEE([]byte(dir)))
}

// link joins host and machine with a veth pair and routes the pods' subnet
// over it. All of it goes with the host's network namespace. It returns the
// host's own address.
func (h *Host) link(ctx context.Context) (netip.Addr, error) {
	machine := h.linkNet.prefix.Addr().Next()
	inside := machine.Next()
	bits := strconv.Itoa(h.linkNet.prefix.Bits())
	name := linkName(h.layout.dir)
	pid := strconv.Itoa(h.supervisor.cmd.Process.Pid)
	ip, err := lookPath("ip")
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find ip: %w", err)
	}
	for _, cmd := range []*exec.Cmd{
		exec.CommandContext(ctx, ip, "link", "add", name, "type", "veth", "peer", "name", "machine", "netns", pid),
		exec.CommandContext(ctx, ip, "addr", "add", machine.String()+"/"+bits, "dev", name),
		exec.CommandContext(ctx, ip, "link", "set", name, "up"),
		h.Command(ctx, "ip", "addr", "add", inside.String()+"/"+bits, "dev", "machine"),
		h.Command(ctx, "ip", "link", "set", "machine", "up"),
		exec.CommandContext(ctx, ip, "route", "add", h.subnet.prefix.String(), "via", inside.String(), "dev", name),
	} {
		if out, err := cmd.CombinedOutput(); err != nil {
			return netip.Addr{}, fmt.Errorf("link host to machine: %s: %w: %s", cmd, err, out)
		}
	}
	return inside, nil
}

// unlink removes the link. It would go with the network namespace too, but
// the kernel takes that down some time after the last process.
func (h *Host) unlink(ctx context.Context) error {
	name := linkName(h.layout.dir)
	if _, err := net.InterfaceByName(name); err != nil {
		return nil //nolint:nilerr // not made, or gone with its other end
	}
	ip, err := lookPath("ip")
	if err != nil {
		return fmt.Errorf("find ip: %w", err)
	}
	if out, err := exec.CommandContext(ctx, ip, "link", "delete", name).CombinedOutput(); err != nil {
		return fmt.Errorf("unlink host: %w: %s", err, out)
	}
	return nil
}
