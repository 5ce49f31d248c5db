package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strconv"

	"github.com/burstlet/burstlet/test/parts/remotehost"
	"github.com/burstlet/burstlet/test/parts/remotehost/namespaces"
)

// link is a veth pair between a host and the machine.
type link struct {
	name    string // of the machine's end
	network *namespaces.Claim
}

// insideName is the name of the host's end.
const insideName = "machine"

// newLink joins a host to the machine.
func newLink(ctx context.Context, host *remotehost.Host) (*link, error) {
	network, err := namespaces.ClaimFree(netip.AddrFrom4([4]byte{198, 19}), 30)
	if err != nil {
		return nil, err
	}
	// A name has at most 15 bytes, and one network has one holder.
	l := &link{name: fmt.Sprintf("blkubelet-%d", network.Prefix.Addr().As4()[2]), network: network}
	if err := l.connect(ctx, host); err != nil {
		return nil, errors.Join(err, l.remove(ctx))
	}
	return l, nil
}

func (l *link) connect(ctx context.Context, host *remotehost.Host) error {
	ip, err := namespaces.LookPath("ip")
	if err != nil {
		return fmt.Errorf("find ip: %w", err)
	}
	// Remains of a killed owner would be in the way.
	if err := l.unplug(ctx, ip); err != nil {
		return err
	}
	bits := "/" + strconv.Itoa(l.network.Prefix.Bits())
	inside := l.machine().Next()
	for _, cmd := range []*exec.Cmd{
		exec.CommandContext(
			ctx, ip, "link", "add", l.name, "type", "veth", "peer", "name", insideName, "netns", strconv.Itoa(host.Pid()),
		),
		exec.CommandContext(ctx, ip, "addr", "add", l.machine().String()+bits, "dev", l.name),
		exec.CommandContext(ctx, ip, "link", "set", l.name, "up"),
		host.Command(ctx, "ip", "addr", "add", inside.String()+bits, "dev", insideName),
		host.Command(ctx, "ip", "link", "set", insideName, "up"),
	} {
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("link host to machine: %s: %w: %s", cmd, err, out)
		}
	}
	return nil
}

// machine is the machine's address on the link.
func (l *link) machine() netip.Addr { return l.network.Prefix.Addr().Next() }

// remove takes the link away, both ends at once.
func (l *link) remove(ctx context.Context) error {
	ip, err := namespaces.LookPath("ip")
	if err == nil {
		err = l.unplug(ctx, ip)
	}
	return errors.Join(err, l.network.Release())
}

func (l *link) unplug(ctx context.Context, ip string) error {
	if _, err := net.InterfaceByName(l.name); err != nil {
		return nil //nolint:nilerr // not made, or gone with its other end
	}
	if out, err := exec.CommandContext(ctx, ip, "link", "delete", l.name).CombinedOutput(); err != nil {
		return fmt.Errorf("unlink host: %w: %s", err, out)
	}
	return nil
}
