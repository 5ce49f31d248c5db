package sshlink

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/containerd/log"
	"golang.org/x/sync/errgroup"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// dialFunc opens the TCP connection to the first sshd.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Link is the way to a pods' host. It leads there while Run runs; whatever is
// asked at another time, or while the host cannot be reached, fails at once as
// backend.ErrUnavailable (backend.ErrDenied when it refuses the keys) with the
// reason.
type Link struct {
	cfg              Config
	dial             dialFunc
	signal           *signal
	control, streams *line
	helper, reader   *assistant
}

// New checks the configuration; it connects to nothing.
func New(cfg Config) (*Link, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Helper == nil {
		return nil, errors.New("the link needs a helper")
	}
	return newLink(cfg.withDefaults(), (&net.Dialer{
		Timeout: dialTimeout, KeepAliveConfig: keepAliveConfig, Control: boundUnacknowledged,
	}).DialContext), nil
}

func newLink(cfg Config, dial dialFunc) *Link {
	l := &Link{cfg: cfg, dial: dial, signal: newSignal()}
	l.control = newLine("control", cfg, dial, l.signal)
	l.streams = newLine("streams", cfg, dial, l.signal)
	l.helper = newAssistant(l.control)
	l.helper.want()
	l.reader = newAssistant(l.streams)
	return l
}

// Run holds both connections and the helpers until the context ends. When it
// returns, all that it started has ended.
func (l *Link) Run(ctx context.Context) error {
	if l.cfg.InsecureIgnoreHostKey {
		log.G(ctx).WithField("host", l.cfg.Address).
			Warn(
				"ssh.insecureIgnoreHostKey is set: the host's key is not checked, whoever answers gets the pods and their secrets",
			)
	}
	var group errgroup.Group
	for _, run := range []func(context.Context){l.control.run, l.streams.run, l.helper.run, l.reader.run} {
		group.Go(func() error {
			run(ctx)
			return nil
		})
	}
	return group.Wait()
}

// Control opens connections on the control connection: the runtime's socket and
// probes. It knows "tcp" and "unix".
func (l *Link) Control() host.Dialer { return l.control }

// Streams opens connections on the streams connection: exec, forwarded ports.
func (l *Link) Streams() host.Dialer { return l.streams }

// Host are the host operations, done by the helper on the control connection; the
// logs are read by one on the streams connection.
func (l *Link) Host() host.Host { return &delegate{helper: l.helper, reader: l.reader} }

// Session is closed when the helper ends that does the host operations now.
func (l *Link) Session(ctx context.Context) (<-chan struct{}, error) {
	client, err := l.helper.ready(ctx)
	if err != nil {
		return nil, err
	}
	return client.Done(), nil
}

// Facts are the present state of both connections, and their history.
func (l *Link) Facts() []backend.LinkFacts {
	return []backend.LinkFacts{l.control.facts(), l.streams.facts()}
}

// Changed returns a channel that is closed when Err next has another answer, or
// when a connection or helper was replaced by a new one.
func (l *Link) Changed() <-chan struct{} { return l.signal.wait() }

// Err is nil while both connections and the helper are up, else the last reason
// why not.
func (l *Link) Err() error {
	for _, err := range []func() error{l.control.err, l.streams.err, l.helper.err} {
		if err := err(); err != nil {
			return err
		}
	}
	return nil
}

// Wait returns when the link is up. When the context ends first, the error is the
// reason why the link is not up, with the class that it has.
func (l *Link) Wait(ctx context.Context) error {
	for {
		changed := l.Changed()
		err := l.Err()
		if err == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for the pods' host: %w", err)
		}
	}
}
