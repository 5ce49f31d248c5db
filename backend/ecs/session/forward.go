package session

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/burstlet/burstlet/backend"
)

// reach implements backend.Forwarder and backend.Dialer: connections that
// burstlet-agent makes, in the network that all containers of a task share.
type reach struct{ *Pool }

// Forward connects to a port on the task's loopback interface.
func (r reach) Forward(ctx context.Context, pod backend.Ref, port uint16) (net.Conn, error) {
	conn, err := r.connect(ctx, pod, net.JoinHostPort("localhost", strconv.Itoa(int(port))))
	if err != nil {
		return nil, ended(ctx, fmt.Sprintf("forward to port %d of pod %s", port, pod.UID), err)
	}
	return conn, nil
}

// Dial connects to an address as the task does. "localhost" is the task: it has no
// host that anybody knows.
func (r reach) Dial(ctx context.Context, pod backend.Ref, address string) (net.Conn, error) {
	conn, err := r.connect(ctx, pod, address)
	if err != nil {
		return nil, ended(ctx, fmt.Sprintf("dial %s from pod %s", address, pod.UID), err)
	}
	return conn, nil
}

func (r reach) connect(ctx context.Context, pod backend.Ref, address string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	arn, containers, err := r.runningTask(ctx, pod)
	if err != nil {
		return nil, err
	}
	t, done, err := r.use(ctx, arn, containers...) // all share one network
	if err != nil {
		return nil, err
	}
	conn, err := t.connect(ctx, address, done)
	if err != nil {
		done()
		return nil, err
	}
	return conn, nil
}
