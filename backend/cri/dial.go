package cri

import (
	"context"
	"net"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/transport"
)

// dialer implements [backend.Dialer]: the pods' network is reached from their
// host.
type dialer struct{ *remote }

// Dial returns the connection's own error in the words that it has: they stand
// in the messages of probes.
func (d dialer) Dial(ctx context.Context, _ backend.Ref, address string) (net.Conn, error) {
	if _, err := d.transport.Current(); err != nil {
		return nil, transport.Failed(err, "connect to %s", address)
	}
	return d.control.DialContext(ctx, "tcp", address)
}
