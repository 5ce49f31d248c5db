package intask

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/crypto/ssh"
)

// forward connects to an address as seen from the task.
func (s *Server) forward(ctx context.Context, c ssh.NewChannel) error {
	var to struct {
		Host       string
		Port       uint32
		Origin     string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(c.ExtraData(), &to); err != nil {
		s.reject(c, ssh.ConnectionFailed, "the address cannot be read")
		return nil //nolint:nilerr // the client is told
	}
	conn, err := s.connect(ctx, net.JoinHostPort(to.Host, strconv.FormatUint(uint64(to.Port), 10)))
	if err != nil {
		s.reject(c, ssh.ConnectionFailed, err.Error())
		return nil
	}
	return join(c, conn)
}

// container connects to the server of another container.
func (s *Server) container(ctx context.Context, c ssh.NewChannel) error {
	var to ToContainer
	if err := ssh.Unmarshal(c.ExtraData(), &to); err != nil || s.Containers == "" || !containerName.MatchString(to.Name) {
		s.reject(c, ssh.Prohibited, "there is no such container")
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(s.Containers, to.Name, AgentSocket))
	if err != nil {
		s.reject(c, ssh.ConnectionFailed, "the container does not run: "+err.Error())
		return nil
	}
	return join(c, conn)
}

// join carries bytes between a channel and a connection, each way to its own end.
func join(c ssh.NewChannel, conn net.Conn) error {
	defer func() { _ = conn.Close() }() // all was copied, or one side is gone
	channel, requests, err := c.Accept()
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for r := range requests {
			if r.WantReply {
				_ = r.Reply(false, nil) // fails when the connection has
			}
		}
		_ = conn.Close() // the client closed the channel, and waits for nothing
	})
	running.Go(func() {
		_, _ = io.Copy(conn, channel) // the end of either is seen on the other side
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	})
	_, err = io.Copy(channel, conn)
	if err == nil {
		err = channel.CloseWrite()
	}
	if err != nil {
		_ = channel.Close() // broken, not ended
	}
	running.Wait()
	_ = channel.Close()
	return nil
}

func (s *Server) connect(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	if s.Dial != nil {
		return s.Dial(ctx, "tcp", address)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", address)
}
