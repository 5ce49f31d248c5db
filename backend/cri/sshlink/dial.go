package sshlink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/crypto/ssh"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sshchannel"
)

// DialContext opens a connection from the host. See [host.Dialer].
func (l *line) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := settled(ctx, l.signal, l.current)
	if err != nil {
		return nil, dialError(network, namedEnd{network, address}, err)
	}
	return c.dial(ctx, network, address)
}

// DialContext makes a connection to a host look like the host's dialer.
func (c *connection) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return c.dial(ctx, network, address)
}

// namedEnd is an end of a connection that only the host can resolve.
type namedEnd struct{ network, address string }

func (e namedEnd) Network() string { return e.network }
func (e namedEnd) String() string  { return e.address }

// tcpOpen is the payload of a direct-tcpip channel (RFC 4254, section 7.2).
type tcpOpen struct {
	Host       string
	Port       uint32
	OriginHost string
	OriginPort uint32
}

// socketOpen is that of direct-streamlocal@openssh.com (OpenSSH, PROTOCOL 2.4).
type socketOpen struct {
	Path     string
	Reserved string
	Unused   uint32
}

func (c *connection) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var (
		kind    string
		payload []byte
		remote  net.Addr
	)
	switch network {
	case "tcp", "tcp4", "tcp6":
		name, port, err := splitPort(address)
		if err != nil {
			return nil, dialError(network, nil, err)
		}
		kind, payload = "direct-tcpip", ssh.Marshal(tcpOpen{Host: name, Port: port, OriginHost: net.IPv4zero.String()})
		remote = namedEnd{network, address}
		if ip := net.ParseIP(name); ip != nil {
			remote = &net.TCPAddr{IP: ip, Port: int(port)}
		}
	case "unix":
		kind, payload = "direct-streamlocal@openssh.com", ssh.Marshal(socketOpen{Path: address})
		remote = &net.UnixAddr{Name: address, Net: network}
	default:
		return nil, dialError(network, nil, net.UnknownNetworkError(network))
	}
	ch, err := c.open(ctx, kind, payload)
	if err != nil {
		return nil, dialError(network, remote, c.explainOpen(ctx, network, address, err))
	}
	t := sshchannel.New(c.link(), ch.Channel, ch.requests, namedEnd{network, "pods' host"}, remote, nil)
	if t == nil {
		return nil, dialError(network, remote, c.lost())
	}
	return t, nil
}

func splitPort(address string) (string, uint32, error) {
	name, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", 0, &net.AddrError{Err: "invalid port", Addr: address}
	}
	return name, uint32(n), nil
}

func dialError(network string, remote net.Addr, err error) error {
	return &net.OpError{Op: "dial", Net: network, Addr: remote, Err: err}
}

// explainOpen turns sshd's refusal of a channel into the error that the dial would
// have had on the host.
func (c *connection) explainOpen(ctx context.Context, network, address string, err error) error {
	var refusal *ssh.OpenChannelError
	if !errors.As(err, &refusal) {
		return err
	}
	switch refusal.Reason {
	case ssh.Prohibited:
		return prohibited(network, address)
	case ssh.UnknownChannelType:
		return backend.Errorf(
			backend.ErrUnsupported, "the host's SSH server cannot forward %s connections: %s", network, refusal.Message,
		)
	case ssh.ConnectionFailed:
		if network == "unix" {
			return c.explainSocket(ctx, address, refusal.Message)
		}
		return connectFailure(address, refusal.Message)
	case ssh.ResourceShortage:
	}
	return backend.Errorf(backend.ErrUnavailable, "the host's SSH server opens no channel: %s", refusal.Message)
}

// prohibited is a forwarding that the host's configuration forbids.
func prohibited(network, address string) error {
	if network == "unix" {
		return backend.Errorf(backend.ErrDenied, "the host's sshd does not forward %s: allow it with "+
			"AllowStreamLocalForwarding yes "+
			"(and without DisableForwarding) in its sshd_config", address)
	}
	return backend.Errorf(backend.ErrDenied, "the host's sshd does not forward to %s: allow it with "+
		"AllowTcpForwarding yes "+
		"(and without DisableForwarding or PermitOpen) in its sshd_config", address)
}

// failures are the texts of sshd's C library, glibc's or musl's, in lower case.
var failures = []struct {
	text  string
	errno syscall.Errno
}{
	{"connection refused", syscall.ECONNREFUSED},
	{"no route to host", syscall.EHOSTUNREACH},
	{"host is unreachable", syscall.EHOSTUNREACH},
	{"connection timed out", syscall.ETIMEDOUT},
	{"operation timed out", syscall.ETIMEDOUT},
	{"network is unreachable", syscall.ENETUNREACH},
	{"network unreachable", syscall.ENETUNREACH},
	{"connection reset by peer", syscall.ECONNRESET},
	{"permission denied", syscall.EACCES},
	{"operation not permitted", syscall.EPERM},
	{"invalid argument", syscall.EINVAL},
	{"cannot assign requested address", syscall.EADDRNOTAVAIL},
	{"no such file or directory", syscall.ENOENT},
}

// resolutions are the texts of its resolver.
var resolutions = []struct {
	text                string
	notFound, temporary bool
}{
	{"name or service not known", true, false},
	{"no address associated with", true, false},
	{"name does not resolve", true, false},
	{"nodename nor servname provided", true, false},
	{"temporary failure in name resolution", false, true},
	{"try again", false, true},
	{"non-recoverable failure in name resolution", false, false},
}

// connectFailure reads sshd's words for a failed connection.
func connectFailure(address, text string) error {
	lower := strings.ToLower(text)
	for _, f := range failures {
		if strings.Contains(lower, f.text) {
			return os.NewSyscallError("connect", f.errno)
		}
	}
	name, _, err := net.SplitHostPort(address)
	if err != nil {
		name = address
	}
	for _, r := range resolutions {
		if strings.Contains(lower, r.text) {
			return &net.DNSError{Err: text, Name: name, IsNotFound: r.notFound, IsTemporary: r.temporary}
		}
	}
	return fmt.Errorf("connect: %s", text)
}

// dialAdvice is for the TCP connection to an sshd.
func dialAdvice(err error) string {
	var dns *net.DNSError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &dns):
		return "check the name, and the name server where burstlet runs"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: is sshd running, is the port right?"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no way to it: is the host up, and the network?"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no answer: is the host up, does a firewall drop the port?"
	default:
		return ""
	}
}
