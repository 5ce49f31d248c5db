package remotehost

import (
	"context"
	"fmt"
	"hash/crc32"
	"net/netip"
	"os"
	"os/exec"
	"strconv"

	"github.com/burstlet/burstlet/test/parts/remotehost/namespaces"
)

// wire is the loose end of eth0; see setup.sh.
const wire = "wire0"

// Join puts the other end of eth0's wire into the machine's network, with a route
// to the pods: the machine then reaches the host's address and those of its pods,
// as the other nodes of a cluster do, and they reach [Host.Gateway]. Burstlet needs
// none of it. The wire goes with the host, and at a reboot.
func (h *Host) Join(ctx context.Context) error {
	machine, err := namespaces.LookPath("ip")
	if err != nil {
		return fmt.Errorf("find ip: %w", err)
	}
	nsenter, err := namespaces.LookPath("nsenter")
	if err != nil {
		return fmt.Errorf("find nsenter: %w", err)
	}
	name := fmt.Sprintf("blr-%08x", crc32.ChecksumIEEE([]byte(h.layout.dir))) // at most 15 bytes, one per host
	inside := func(args ...string) *exec.Cmd {
		// Only its network: the PIDs it names are the machine's.
		return exec.CommandContext(ctx, nsenter, append([]string{
			"--target", strconv.Itoa(h.Pid()), "--net", "--", machine,
		}, args...)...)
	}
	gateway := netip.PrefixFrom(h.Gateway(), h.network.Prefix.Bits())
	for _, cmd := range []*exec.Cmd{
		inside("link", "set", wire, "netns", strconv.Itoa(os.Getpid()), "name", name),
		inside("route", "add", "default", "via", h.Gateway().String()),
		exec.CommandContext(ctx, machine, "addr", "add", gateway.String(), "dev", name),
		exec.CommandContext(ctx, machine, "link", "set", name, "up"),
		exec.CommandContext(ctx, machine, "route", "add", h.subnet.Prefix.String(), "via", h.Address().String(), "dev", name),
	} {
		cmd.Env = namespaces.Env()
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("join %s to the machine's network: %s: %w: %s", h.Hostname(), cmd, err, out)
		}
	}
	return nil
}

// Gateway is the machine's address on the wire of [Host.Join].
func (h *Host) Gateway() netip.Addr { return h.Address().Next() }
