package remotehost

import (
	"context"
	"fmt"
	"hash/crc32"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"

	"github.com/burstlet/burstlet/test/parts/remotehost/namespaces"
)

// wire is the loose end of eth0; see setup.sh.
const wire = "wire0"

// machineEnd is the wire's name in the machine's network: at most 15 bytes, one per host.
func (h *Host) machineEnd() string {
	return fmt.Sprintf("blr-%08x", crc32.ChecksumIEEE([]byte(h.layout.dir)))
}

// Join connects a host that is not Linked as those are, and routes all else through
// the machine: the host's pods reach those of other nodes of a cluster. Burstlet needs
// none of it. The wire goes with the host, and at a reboot.
func (h *Host) Join(ctx context.Context) error {
	if err := h.connect(ctx); err != nil {
		return err
	}
	return h.ip(ctx, true, "route", "add", "default", "via", h.Gateway().String())
}

// connect puts the other end of eth0's wire into the machine's network, with a route
// to the pods.
func (h *Host) connect(ctx context.Context) error {
	name := h.machineEnd()
	gateway := netip.PrefixFrom(h.Gateway(), h.network.Prefix.Bits())
	for _, step := range []struct {
		inside bool
		args   []string
	}{
		{true, []string{"link", "set", wire, "netns", strconv.Itoa(os.Getpid()), "name", name}},
		{false, []string{"addr", "add", gateway.String(), "dev", name}},
		{false, []string{"link", "set", name, "up"}},
		{false, []string{"route", "add", h.subnet.Prefix.String(), "via", h.Address().String(), "dev", name}},
	} {
		if err := h.ip(ctx, step.inside, step.args...); err != nil {
			return err
		}
	}
	return nil
}

// disconnect takes the wire away. It would go with the host's network too, but the
// kernel takes that down some time after the last process.
func (h *Host) disconnect() error {
	if _, err := net.InterfaceByName(h.machineEnd()); err != nil {
		return nil //nolint:nilerr // not made, or gone with its other end
	}
	return h.ip(context.Background(), false, "link", "delete", h.machineEnd())
}

// ip runs the machine's ip, in the host's network if it is to be inside. PIDs are the
// machine's either way.
func (h *Host) ip(ctx context.Context, inside bool, args ...string) error {
	argv := append([]string{"ip"}, args...)
	if inside {
		argv = append([]string{"nsenter", "--target", strconv.Itoa(h.Pid()), "--net", "--"}, argv...)
	}
	program, err := namespaces.LookPath(argv[0])
	if err != nil {
		return fmt.Errorf("find %s: %w", argv[0], err)
	}
	cmd := exec.CommandContext(ctx, program, argv[1:]...)
	cmd.Env = namespaces.Env()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("join %s to the machine's network: %s: %w: %s", h.Hostname(), cmd, err, out)
	}
	return nil
}

// Gateway is the machine's address on the wire, where pods reach what listens there.
func (h *Host) Gateway() netip.Addr { return h.Address().Next() }
