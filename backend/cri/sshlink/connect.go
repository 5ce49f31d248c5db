package sshlink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/sshlink/hostkeys"
	"github.com/burstlet/burstlet/backend/cri/sshlink/keyring"
)

const (
	// dialTimeout bounds the TCP connection.
	dialTimeout = 10 * time.Second
	// handshakeTimeout bounds what follows until we are logged in.
	handshakeTimeout = 15 * time.Second
	// clientVersion is how we introduce ourselves to an sshd.
	clientVersion = "SSH-2.0-burstlet"
)

// stage is how far an attempt to connect came.
type stage int

const (
	stageSetup stage = iota
	stageReach
	stageHostKey
	stageAuthenticate
)

// connectError is a failed attempt to connect.
type connectError struct {
	stage stage
	hop   Hop
	err   error
	// advice is what to do, for people.
	advice string
}

func (e *connectError) Error() string {
	if e.advice == "" {
		return fmt.Sprintf("connect to %s: %v", e.hop.Address, e.err)
	}
	return fmt.Sprintf("connect to %s: %v (%s)", e.hop.Address, e.err, e.advice)
}

func (e *connectError) Unwrap() error { return e.err }

// connect makes the connection to the host, through its jump hosts. Errors:
// *connectError with class Denied when the keys are refused, else Unavailable.
func (l *line) connect(ctx context.Context) (*connection, error) {
	var c *connection
	for _, hop := range l.cfg.hops() {
		next, err := l.connectHop(ctx, c, hop)
		if err != nil {
			if c != nil {
				c.fail(err)
			}
			return nil, unavailable(err)
		}
		c = next
		// The first session decides, so this comes before any other.
		c.openTerminal(ctx)
	}
	c.spawn(func() { c.keepAlive(l.cfg.Keepalive, l.cfg.KeepaliveMax) })
	return c, nil
}

// connectHop logs in to one sshd, through the connection below if there is one.
func (l *line) connectHop(ctx context.Context, via *connection, hop Hop) (*connection, error) {
	fail := func(at stage, err error, advice string) (*connection, error) {
		return nil, &connectError{stage: at, hop: hop, err: err, advice: advice}
	}
	keys := keyring.Load(ctx, l.cfg.keysOf(hop))
	defer keys.Close()
	if err := keys.Usable(); err != nil {
		return fail(stageSetup, backend.Classed(backend.ErrDenied, err), "")
	}
	hosts, err := l.cfg.hostKeys(hop)
	if err != nil {
		return fail(stageSetup, err, "")
	}
	raw, err := l.dialHop(ctx, via, hop)
	if err != nil {
		return fail(stageReach, err, dialAdvice(err))
	}
	watched := &watchedConn{Conn: raw}
	if via == nil {
		watched.traffic = &l.traffic
	}
	client, err := shakeHands(ctx, watched, hop, hosts, keys)
	if err != nil {
		_ = raw.Close() // it is of no use, and err says why
		return nil, explainHandshake(ctx, err, hop, hosts, keys)
	}
	return newConnection(hop, client, watched, via, &l.work), nil
}

func (l *line) dialHop(ctx context.Context, via *connection, hop Hop) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if via == nil {
		return l.dial(ctx, "tcp", hop.Address)
	}
	return via.dial(ctx, "tcp", hop.Address)
}

// shakeHands authenticates both sides.
func shakeHands(
	ctx context.Context, raw net.Conn, hop Hop, hosts *hostkeys.Checker, keys *keyring.Keyring,
) (ssh.Conn, error) {
	if err := raw.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return nil, err
	}
	// Closing is what ends a handshake early; its error says nothing more.
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	client, channels, requests, err := ssh.NewClientConn(raw, hop.Address, &ssh.ClientConfig{
		Config: ssh.Config{
			KeyExchanges: ssh.SupportedAlgorithms().KeyExchanges, MACs: withoutSHA1(ssh.SupportedAlgorithms().MACs),
		},
		User: hop.User, ClientVersion: clientVersion,
		Auth:            []ssh.AuthMethod{ssh.PublicKeysCallback(keys.Offer)},
		HostKeyCallback: hosts.Check, HostKeyAlgorithms: hosts.Algorithms,
	})
	if err != nil {
		return nil, err
	}
	if err := raw.SetDeadline(time.Time{}); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	// The other side opens nothing and asks for nothing but signs of life. Both end
	// with the connection.
	return ssh.NewClient(client, channels, requests), nil
}

// withoutSHA1 drops what builds on SHA-1.
func withoutSHA1(algorithms []string) []string {
	return slices.DeleteFunc(algorithms, func(a string) bool { return strings.Contains(a, "sha1") })
}

// explainHandshake says in the words of who can mend it why a handshake failed.
func explainHandshake(ctx context.Context, err error, hop Hop, hosts *hostkeys.Checker, keys *keyring.Keyring) error {
	e := &connectError{stage: stageReach, hop: hop, err: err}
	verified, refusal := hosts.Verdict()
	text := err.Error()
	switch {
	case ctx.Err() != nil:
		e.err = ctx.Err()
	case refusal != nil:
		e.stage, e.err = stageHostKey, refusal
	case strings.Contains(text, "no common"):
		e.advice = "what it offers is too old to be safe: update its sshd, and see HostKeyAlgorithms, KexAlgorithms, " +
			"Ciphers, MACs " +
			"and PubkeyAcceptedAlgorithms in its sshd_config"
	case verified &&
		(strings.Contains(text, "unable to authenticate") || strings.Contains(text, "oo many authentication")):
		e.stage = stageAuthenticate
		e.err = backend.Classed(backend.ErrDenied, keys.Refused(hop, text))
	case verified:
		e.stage = stageAuthenticate
		e.advice = "the host ended the login: its log (journalctl -u ssh) says why"
	case strings.HasSuffix(text, "EOF"), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		e.advice = "the host closed the connection before it said who it is: is it an sshd, is it short of connections " +
			"(MaxStartups), or does it bar this address (PerSourcePenalties, fail2ban)?"
	case errors.Is(err, context.DeadlineExceeded), strings.Contains(text, "i/o timeout"):
		e.advice = "something accepted the connection, but no sshd answered in time"
	}
	return e
}
