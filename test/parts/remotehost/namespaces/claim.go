package namespaces

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// Claim holds a network for one host among all hosts of the machine. It is an
// abstract unix socket, so the kernel gives it up with its process.
type Claim struct {
	Prefix   netip.Prefix
	listener net.Listener
}

// ClaimPrefix claims one given network.
func ClaimPrefix(prefix netip.Prefix) (*Claim, error) {
	listener, err := net.Listen("unix", "@burstlet-remotehost/"+prefix.String())
	if err != nil {
		return nil, fmt.Errorf("claim network %s: %w", prefix, err)
	}
	return &Claim{Prefix: prefix, listener: listener}, nil
}

// ClaimFree claims the first free network of the given size, 256 addresses
// apart, in the /16 that base starts.
func ClaimFree(base netip.Addr, bits int) (*Claim, error) {
	bytes := base.As4()
	for third := range 256 {
		bytes[2] = byte(third)
		got, err := ClaimPrefix(netip.PrefixFrom(netip.AddrFrom4(bytes), bits))
		if !errors.Is(err, syscall.EADDRINUSE) {
			return got, err
		}
	}
	return nil, fmt.Errorf("every network of %s/16 is in use by another host", base)
}

// Release lets another host have the network.
func (c *Claim) Release() error {
	if err := c.listener.Close(); err != nil {
		return fmt.Errorf("release network %s: %w", c.Prefix, err)
	}
	return nil
}
