package intask

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/burstlet/burstlet/backend/pause"
)

// Starter starts commands in a container, as what its own command runs as.
type Starter interface {
	// Start starts a command in a process group of its own. Errors say that it
	// cannot be started.
	Start(c Command) (Process, error)
}

// Command is what to start.
type Command struct {
	Argv                  []string
	Stdin, Stdout, Stderr *os.File
	// Terminal: the files are one terminal, which the command is to control.
	Terminal bool
	// Env is more than the container's environment has.
	Env []string
}

// Process is a command that was started.
type Process interface {
	// Wait returns the exit code, 128 and the number for a signal. It is called once.
	Wait() int
	// Signal is for the whole process group; one that has ended gets none.
	Signal(s syscall.Signal) error
}

// Server is what is reached of a container from outside of its task: an SSH server
// on a unix socket that only root can connect to, without authentication. A
// connection begins with a line (see Hello); then:
//
//   - a channel "session" with a request "exec" runs a command, whose payload is an
//     ExecRequest as JSON, on a terminal after "pty-req". Its output, input, end of
//     input, exit-status and window-change are those of RFC 4254. A command that
//     cannot be started is told by a request RequestStartError. The command is
//     killed when its channel is closed.
//   - a channel "session" with a request "subsystem" stats returns Stats.
//   - a channel "direct-tcpip" connects to an address as seen from the task.
//   - a channel ChannelContainer connects to the server of another container.
//   - a request RequestGrace of the connection shortens the grace of the container.
type Server struct {
	Starter Starter
	// Containers is where the run directories of other containers are, by name;
	// empty: none can be reached.
	Containers string
	// Stats are those of the task; nil where there are none.
	Stats func(context.Context) (json.RawMessage, error)
	// Shorten leaves the container no longer than a grace from now, once it is asked to
	// end. It is false where it ends already; nil where there is no container.
	Shorten func(ctx context.Context, grace time.Duration) bool
	// Dial connects for direct-tcpip; nil is a net.Dialer's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	Log  *log.Logger
}

// Bounds of a server.
const (
	maxConnections = 16
	maxChannels    = 128
	// greetLimit bounds the time until a connection speaks SSH.
	greetLimit = 30 * time.Second
	// dialLimit bounds a connection to a port, as kubelets do.
	dialLimit = 10 * time.Second
	// acceptAgain is the pause after a connection could not be accepted.
	acceptAgain = time.Second
)

// ChannelContainer is the type of a channel to the server of another container; its
// extra data is a ToContainer.
const ChannelContainer = "container@burstlet.dev"

// ToContainer names a container.
type ToContainer struct{ Name string }

// RequestEnd asks the server to end the connection: a session's terminal does not
// end because a client goes.
const RequestEnd = "end@burstlet.dev"

// RequestGrace leaves the container less than the grace of its definition, which
// StopTask cannot: its payload is a Grace. It is refused where there is no supervisor.
const RequestGrace = "grace@burstlet.dev"

// Grace is how long a container has from now, once it is asked to end.
type Grace struct{ Seconds uint32 }

// RequestStartError is a channel request that a command could not be started; its
// payload is a StartError.
const RequestStartError = "start-error@burstlet.dev"

// StartError says why a command cannot be started.
type StartError struct{ Text string }

// ExecRequest is the payload of an exec request.
type ExecRequest struct {
	Argv []string `json:"argv"`
}

// ListenAgent listens on a unix socket, for root alone, in the place of one that a
// process before left.
func ListenAgent(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listen for sessions: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for sessions: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("listen for sessions: %w", err), l.Close())
	}
	return l, nil
}

// Serve answers on l until ctx ends. Then it closes l, kills what runs, and returns
// when that has ended.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	config, hello, err := newServerConfig()
	if err != nil {
		return errors.Join(err, l.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { _ = l.Close() }) // Accept tells
	defer stop()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	free := make(chan struct{}, maxConnections)
	for {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		conn, err := accept(ctx, l)
		if err != nil {
			return err
		}
		if conn == nil {
			return nil
		}
		running.Go(func() {
			defer func() { <-free }()
			if err := s.serve(ctx, conn, config, hello); err != nil && ctx.Err() == nil {
				s.Log.Print(err)
			}
		})
	}
}

// accept returns nil when the context has ended. Connections that cannot be made
// for want of something are tried again.
func accept(ctx context.Context, l net.Listener) (net.Conn, error) {
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			return conn, nil
		case ctx.Err() != nil:
			return nil, nil //nolint:nilerr // it was asked to end
		case errors.Is(err, net.ErrClosed):
			return nil, fmt.Errorf("wait for sessions: %w", err)
		}
		if pause.For(ctx, acceptAgain) != nil {
			return nil, nil //nolint:nilerr // it was asked to end
		}
	}
}

// newServerConfig has a key that lives as long as the server.
func newServerConfig() (*ssh.ServerConfig, string, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, "", fmt.Errorf("make a host key: %w", err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return nil, "", fmt.Errorf("make a host key: %w", err)
	}
	config := &ssh.ServerConfig{NoClientAuth: true, ServerVersion: "SSH-2.0-burstlet"}
	config.AddHostKey(signer)
	return config, helloKey + base64.StdEncoding.EncodeToString(signer.PublicKey().Marshal()) + "\n", nil
}

// serve carries one connection to its end.
func (s *Server) serve(ctx context.Context, conn net.Conn, config *ssh.ServerConfig, hello string) error {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // reads end with it
	defer stop()
	defer cancel()
	err := conn.SetDeadline(time.Now().Add(greetLimit))
	if err == nil {
		_, err = conn.Write([]byte(hello))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("greet a session: %w", err), conn.Close())
	}
	sc, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return errors.Join(fmt.Errorf("begin a session: %w", err), conn.Close())
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return errors.Join(fmt.Errorf("begin a session: %w", err), sc.Close())
	}
	var running sync.WaitGroup
	running.Go(func() { s.requests(ctx, sc, requests) })
	s.channels(ctx, channels, &running)
	cancel()
	running.Wait()
	return nil // the end of a connection is no error
}

// requests answers what is asked of the whole connection: anything is answered, so
// that a client learns that it is heard.
func (s *Server) requests(ctx context.Context, c ssh.Conn, requests <-chan *ssh.Request) {
	for r := range requests {
		done := false
		switch r.Type {
		case RequestEnd:
			_ = c.Close() // what is left ends with it
		case RequestGrace:
			done = s.shorten(ctx, r.Payload)
		}
		if r.WantReply {
			_ = r.Reply(done, nil) // fails when the connection has
		}
	}
}

// shorten is true once the container has no more than the grace of a request.
func (s *Server) shorten(ctx context.Context, payload []byte) bool {
	var g Grace
	return s.Shorten != nil && ssh.Unmarshal(payload, &g) == nil &&
		s.Shorten(ctx, time.Duration(g.Seconds)*time.Second)
}

// channels opens channels until the connection ends.
func (s *Server) channels(ctx context.Context, channels <-chan ssh.NewChannel, running *sync.WaitGroup) {
	free := make(chan struct{}, maxChannels)
	for c := range channels {
		serve, ok := map[string]func(context.Context, ssh.NewChannel) error{
			"session": s.session, "direct-tcpip": s.forward, ChannelContainer: s.container,
		}[c.ChannelType()]
		if !ok {
			s.reject(c, ssh.UnknownChannelType, "there is no such channel")
			continue
		}
		select {
		case free <- struct{}{}:
		default:
			s.reject(c, ssh.ResourceShortage, "there are too many channels")
			continue
		}
		running.Go(func() {
			defer func() { <-free }()
			if err := serve(ctx, c); err != nil && ctx.Err() == nil {
				s.Log.Print(err)
			}
		})
	}
}

func (s *Server) reject(c ssh.NewChannel, reason ssh.RejectionReason, text string) {
	// It fails when the connection has: then nobody waits for it.
	_ = c.Reject(reason, text)
}
