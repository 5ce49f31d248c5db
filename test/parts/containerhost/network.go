package containerhost

import (
	"context"
	"fmt"
	"hash/crc32"
	"net"
	"net/netip"
	"os/exec"
	"strconv"

	"github.com/burstlet/burstlet/test/parts/remotehost/namespaces"
)

// Command prepares a command that runs inside the host, in all its namespaces
// and with its PATH: "ip", "iptables", or anything else of the machine's. The
// command ends with the host, or with ctx.
func (h *Host) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return h.inside.Command(ctx, name, args...)
}

// DialContext dials from inside the host's network: its pods, and its
// loopback, which the streaming server listens on. The address is numeric.
func (h *Host) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return h.inside.DialContext(ctx, network, address)
}

// Listen listens inside the host's network. The address is numeric.
func (h *Host) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	return h.inside.Listen(ctx, network, address)
}

// Machine is the machine's address on the link, where pods reach what listens
// there; invalid unless Linked.
func (h *Host) Machine() netip.Addr {
	if h.linkNet == nil {
		return netip.Addr{}
	}
	return h.linkNet.Prefix.Addr().Next()
}

// linkName is the machine's end of the link: at most 15 bytes, one per host.
func linkName(dir string) string {
	return fmt.Sprintf("blh-%08x", crc32.ChecksumIEEE([]byte(dir)))
}

// link joins host and machine with a veth pair and routes the pods' subnet
// over it. All of it goes with the host's network namespace. It returns the
// host's own address.
func (h *Host) link(ctx context.Context) (netip.Addr, error) {
	machine := h.Machine()
	inside := machine.Next()
	bits := strconv.Itoa(h.linkNet.Prefix.Bits())
	name := linkName(h.StateDir())
	pid := strconv.Itoa(h.Pid())
	ip, err := namespaces.LookPath("ip")
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find ip: %w", err)
	}
	for _, cmd := range []*exec.Cmd{
		exec.CommandContext(ctx, ip, "link", "add", name, "type", "veth", "peer", "name", "machine", "netns", pid),
		exec.CommandContext(ctx, ip, "addr", "add", machine.String()+"/"+bits, "dev", name),
		exec.CommandContext(ctx, ip, "link", "set", name, "up"),
		h.Command(ctx, "ip", "addr", "add", inside.String()+"/"+bits, "dev", "machine"),
		h.Command(ctx, "ip", "link", "set", "machine", "up"),
		exec.CommandContext(ctx, ip, "route", "add", h.subnet.Prefix.String(), "via", inside.String(), "dev", name),
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
	name := linkName(h.StateDir())
	if _, err := net.InterfaceByName(name); err != nil {
		return nil //nolint:nilerr // not made, or gone with its other end
	}
	ip, err := namespaces.LookPath("ip")
	if err != nil {
		return fmt.Errorf("find ip: %w", err)
	}
	if out, err := exec.CommandContext(ctx, ip, "link", "delete", name).CombinedOutput(); err != nil {
		return fmt.Errorf("unlink host: %w: %s", err, out)
	}
	return nil
}
