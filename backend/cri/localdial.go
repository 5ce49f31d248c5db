package cri

import (
	"context"
	"net"
)

// localDialer dials from this machine: it is the pods' host.
type localDialer struct{}

func (localDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}
