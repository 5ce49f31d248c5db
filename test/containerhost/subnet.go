package containerhost

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// claim holds a network for one host among all hosts of the machine. It is an
// abstract unix socket, so the kernel gives it up with its process.
type claim struct {
	prefix   netip.Prefix
	listener net.Listener
}

// claimPrefix claims one given network.
func claimPrefix(prefix netip.Prefix) (*claim, error) {
	listener, err := net.Listen("unix", "@burstlet-containerhost/"+prefix.String())
	if err != nil {
		return nil, fmt.Errorf("claim network %s: %w", prefix, err)
	}
	return &claim{prefix: prefix, listener: listener}, nil
}

// claimFree claims the first free network of the given size, 256 addresses
// apart, in the /16 that base starts.
func claimFree(base netip.Addr, bits int) (*claim, error) {
	bytes := base.As4()
	for third := range 256 {
		bytes[2] = byte(third)
		got, err := claimPrefix(netip.PrefixFrom(netip.AddrFrom4(bytes), bits))
		if !errors.Is(err, syscall.EADDRINUSE) {
			return got, err
		}
	}
	return nil, fmt.Errorf("every network of %s/16 is in use by another host", base)
}

func (c *claim) release() error {
	if err := c.listener.Close(); err != nil {
		return fmt.Errorf("release network %s: %w", c.prefix, err)
	}
	return nil
}
