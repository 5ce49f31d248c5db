package intask

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// checker carries out single checks of the container, in the kubelet's words.
type checker struct {
	// output runs a command in the container.
	output func(ctx context.Context, argv []string) (ran, error)
	// address is where checks go that name no host: the task's, not the loopback
	// one, because that is where a kubelet asks.
	address string
}

// errHandler is an error about a handler without anything to do.
var errHandler = errors.New("missing probe handler")

// check carries out a probe's handler. Whatever the container answers, or fails to
// answer within the timeout, is a verdict; an error says that it could not be asked.
func (c checker) check(ctx context.Context, h Handler, timeout time.Duration) (verdict, string, error) {
	switch {
	case h.Exec != nil:
		return c.exec(ctx, h.Exec, timeout)
	case h.HTTP != nil:
		return c.http(ctx, h.HTTP, timeout)
	case h.TCP != nil:
		return c.tcp(ctx, h.TCP, timeout)
	case h.GRPC != nil:
		return c.grpc(ctx, h.GRPC, timeout)
	}
	return unknown, "", errHandler
}

// at is host:port, of the task if no host is named.
func (c checker) at(host string, port int32) (string, error) {
	if host == "" {
		host = c.address
	}
	if host == "" {
		return "", errors.New("the address of the task is not known")
	}
	if port <= 0 || port > 65535 {
		return "", fmt.Errorf("invalid port number: %d", port)
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port))), nil
}

func (c checker) exec(ctx context.Context, argv []string, timeout time.Duration) (verdict, string, error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := c.output(limited, argv)
	switch {
	case err == nil && r.code == 0:
		return success, r.text(), nil
	case err == nil:
		return failed, r.text(), nil
	case limited.Err() != nil && ctx.Err() == nil:
		return failed, fmt.Sprintf("command timed out: %q timed out after %v", strings.Join(argv, " "), timeout), nil
	default:
		return unknown, "", err
	}
}

// tcp succeeds when a connection can be opened.
func (c checker) tcp(ctx context.Context, s *TCPSocket, timeout time.Duration) (verdict, string, error) {
	address, err := c.at(s.Host, s.Port)
	if err != nil {
		return unknown, "", err
	}
	conn, err := (&net.Dialer{Timeout: timeout}).DialContext(ctx, "tcp", address)
	switch {
	case err == nil:
		_ = conn.Close() // it was opened: that is all
		return success, "", nil
	case ctx.Err() != nil:
		return unknown, "", err
	default:
		return failed, clip(err.Error()), nil
	}
}
