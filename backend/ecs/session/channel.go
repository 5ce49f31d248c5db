package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/intask"
	"github.com/burstlet/burstlet/backend/pause"
	"github.com/burstlet/burstlet/backend/sshchannel"
)

// Tries of a container's server that does not listen yet.
const (
	containerTries = 5
	containerAgain = 500 * time.Millisecond
)

// opened is a channel that was asked for.
type opened struct {
	channel  ssh.Channel
	requests <-chan *ssh.Request
	err      error
}

// openChannel opens a channel of a connection, and returns when ctx ends at the latest:
// Run then waits for the opening, whose channel is closed. Errors of a connection that
// is broken are Unavailable, those of the other side its own.
func (s *Pool) openChannel(
	ctx context.Context, c ssh.Conn, kind string, extra []byte,
) (ssh.Channel, <-chan *ssh.Request, error) {
	done := make(chan opened)
	started := s.start(func() {
		channel, requests, err := c.OpenChannel(kind, extra) // ends with the connection at the latest
		select {
		case done <- opened{channel, requests, err}:
		case <-ctx.Done():
			if err == nil {
				_ = channel.Close()
				ssh.DiscardRequests(requests)
			}
		}
	})
	if !started {
		return nil, nil, errEnded
	}
	select {
	case o := <-done:
		var refused *ssh.OpenChannelError
		if o.err != nil && !errors.As(o.err, &refused) {
			o.err = backend.Errorf(backend.ErrUnavailable, "the session broke: %w", o.err)
		}
		return o.channel, o.requests, o.err
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// container returns a connection to the server of a container of the task.
func (t *taskSession) container(ctx context.Context, name string) (*ssh.Client, error) {
	if t.via == name {
		return t.client, nil
	}
	select {
	case t.lock <- struct{}{}:
		defer func() { <-t.lock }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if c := t.containers[name]; c != nil && answers(c) {
		return c, nil
	}
	c, err := t.reach(ctx, name)
	if err != nil {
		return nil, err
	}
	t.containers[name] = c
	return c, nil
}

// answers is true for a connection that answers, whatever it answers.
func answers(c *ssh.Client) bool {
	_, _, err := c.SendRequest("keepalive@burstlet.dev", true, nil)
	return err == nil
}

// reach connects to the server of a container, which listens a moment after its
// container has started.
func (t *taskSession) reach(ctx context.Context, name string) (*ssh.Client, error) {
	for try := 1; ; try++ {
		channel, requests, err := t.pool.openChannel(ctx, t.client, intask.ChannelContainer,
			ssh.Marshal(intask.ToContainer{Name: name}))
		if err == nil {
			if !t.pool.start(func() { ssh.DiscardRequests(requests) }) {
				return nil, errors.Join(errEnded, channel.Close())
			}
			client, err := speakSSH(ctx, &channelConn{Channel: channel})
			if err != nil {
				return nil, backend.Errorf(backend.ErrUnavailable, "reach the container: %w", err)
			}
			return client, nil
		}
		var refused *ssh.OpenChannelError
		if !errors.As(err, &refused) {
			return nil, err
		}
		if try == containerTries {
			return nil, backend.Errorf(backend.ErrUnavailable, "reach the container: %s", refused.Message)
		}
		if err := pause.For(ctx, containerAgain); err != nil {
			return nil, err
		}
	}
}

// channelConn is a channel as a connection without deadlines.
type channelConn struct {
	undated
	ssh.Channel
}

// connect opens a TCP connection from inside the task.
func (t *taskSession) connect(ctx context.Context, address string, done func()) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("connect: the port %q is no number", port)
	}
	to := ssh.Marshal(struct {
		Host       string
		Port       uint32
		Origin     string
		OriginPort uint32
	}{host, uint32(n), "127.0.0.1", 0})
	channel, requests, err := t.pool.openChannel(ctx, t.client, "direct-tcpip", to)
	if err != nil {
		var refused *ssh.OpenChannelError
		if errors.As(err, &refused) && refused.Reason == ssh.ConnectionFailed {
			return nil, fmt.Errorf("connect: %s", refused.Message)
		}
		return nil, err
	}
	conn := sshchannel.New(t.link(), channel, requests, inTask("burstlet"), inTask(address), nil)
	if conn == nil {
		return nil, t.lost()
	}
	return &lent{conn, sync.OnceFunc(done)}, nil
}

// link is the session as its channels see it.
func (t *taskSession) link() sshchannel.Link {
	return sshchannel.Link{Go: t.pool.start, Dead: t.dead, Dying: t.broken, Err: t.lost}
}

// lost is the error of what goes through a session that has ended.
func (*taskSession) lost() error { return backend.Errorf(backend.ErrUnavailable, "the session broke") }

// lent is a connection that gives its session back.
type lent struct {
	*sshchannel.Conn
	done func()
}

// Close closes the connection.
func (l *lent) Close() error {
	l.done()
	return l.Conn.Close()
}
