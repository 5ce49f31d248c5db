package check

import (
	"context"
	"time"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"
)

// probeTCP succeeds when a connection can be opened.
func (c *Checker) probeTCP(
	ctx context.Context, t Target, socket *corev1.TCPSocketAction, timeout time.Duration,
) (Verdict, string, error) {
	port, err := t.port(socket.Port)
	if err != nil {
		return Unknown, "", err
	}
	address, err := t.address(socket.Host, port)
	if err != nil {
		return Unknown, "", err
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := c.connect(limited, t.Ref.Pod, address)
	switch {
	case err == nil:
		if err := conn.Close(); err != nil {
			log.G(ctx).WithError(err).Debug("closing the connection of a probe")
		}
		return Success, "", nil
	case ctx.Err() != nil:
		return Unknown, "", err
	case limited.Err() != nil && late(err):
		return Silence, "dial tcp " + address + ": i/o timeout", nil
	case Unasked(err):
		return Unknown, "", err
	default:
		return Failure, clip(err.Error()), nil
	}
}
