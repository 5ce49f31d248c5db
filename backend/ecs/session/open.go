package session

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"golang.org/x/crypto/ssh"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/ecs/intask"
	"github.com/burstlet/burstlet/backend/ecs/ssm"
)

// API is the one call of ECS that sessions need.
type API interface {
	ExecuteCommand(context.Context, *awsecs.ExecuteCommandInput,
		...func(*awsecs.Options)) (*awsecs.ExecuteCommandOutput, error)
}

// What keeps a session from being opened, and what to do.
const (
	whyNoExec = "its task was started without ECS Exec: give its pods a task role with which ECS Exec may work " +
		"(backend.ecs.taskRoleARN or the annotation ecs.burstlet.dev/task-role-arn; " +
		"deploy/aws/task-role-policy.json), and start it anew"
	whyExecOff = "ECS Exec is turned off for its task, so that nothing in it can be reached: set the annotation " +
		"ecs.burstlet.dev/exec to \"true\", or backend.ecs.exec to true, and start the pod anew"
	whyNoAgent = "the ECS Exec agent in the task is not connected: its role needs ssmmessages:CreateControlChannel, " +
		"CreateDataChannel, OpenControlChannel and OpenDataChannel (deploy/aws/task-role-policy.json), and its " +
		"subnets a way to the endpoint ssmmessages"
)

// errNoAgent is in the chain of an error about a container without an agent of ECS Exec
// that answers.
var errNoAgent = errors.New("the ECS Exec agent in the container does not run")

// execute asks ECS for a session in a container, until the agent in it is there. Errors:
// Unsupported for a task that never has one, Unavailable where it is not there yet.
func (s *Pool) execute(ctx context.Context, in key) (ssm.Stream, error) {
	limit := time.NewTimer(agentWait)
	defer limit.Stop()
	for {
		out, err := s.ask(ctx, in)
		if err == nil && out.Session != nil {
			return ssm.Stream{
				URL: aws.ToString(out.Session.StreamUrl), Token: aws.ToString(out.Session.TokenValue),
			}, nil
		}
		if err == nil {
			return ssm.Stream{}, backend.Errorf(backend.ErrUnavailable, "execute command: the answer has no session")
		}
		if err = s.whyNot(ctx, in, err); err != nil {
			return ssm.Stream{}, err
		}
		again := time.NewTimer(openAgain)
		select {
		case <-again.C:
		case <-limit.C:
			return ssm.Stream{}, backend.Errorf(backend.ErrUnavailable, "%w: %s", errNoAgent, whyNoAgent)
		case <-ctx.Done():
			return ssm.Stream{}, backend.Errorf(backend.ErrUnavailable, "%s", whyNoAgent)
		}
	}
}

func (s *Pool) ask(ctx context.Context, in key) (*awsecs.ExecuteCommandOutput, error) {
	if err := awscall.Wait(ctx, s.own, s.cfg.Modify); err != nil {
		return nil, err
	}
	// It is run without a shell.
	command := strings.Join([]string{intask.Program, intask.CommandSession, in.via}, " ")
	if in.via != s.cfg.Container { // one of the pod's, whose server is the supervisor's
		command = strings.Join([]string{intask.Supervisor, intask.CommandSession}, " ")
	}
	return s.cfg.API.ExecuteCommand(ctx, &awsecs.ExecuteCommandInput{
		Cluster: &s.cfg.Cluster, Task: &in.arn, Container: &in.via, Command: &command, Interactive: true,
	})
}

// whyNot is nil where it is worth asking again. ECS has one answer for a task
// without ECS Exec and for one whose agent does not run yet.
func (s *Pool) whyNot(ctx context.Context, in key, err error) error {
	var unconnected *types.TargetNotConnectedException
	if !errors.As(err, &unconnected) && !awscall.IsCode(err, "InvalidParameterException") {
		return fmt.Errorf("execute command: %w", awscall.Classify(err))
	}
	tasks, _, derr := s.tasks.Describe(ctx, []string{in.arn})
	switch {
	case derr != nil:
		return derr
	case len(tasks) == 0 || aws.ToString(tasks[0].DesiredStatus) == string(types.DesiredStatusStopped):
		return backend.Errorf(backend.ErrNotFound, "its task has ended")
	case !tasks[0].EnableExecuteCommand:
		if id, err := identity.Read(tasks[0]); err == nil && id.NoExec {
			return backend.Errorf(backend.ErrUnsupported, "%s", whyExecOff)
		}
		return backend.Errorf(backend.ErrUnsupported, "%s", whyNoExec)
	case agentEnded(tasks[0], in.via):
		return backend.Errorf(backend.ErrUnavailable, "%w: ECS says that it has stopped in container %s", errNoAgent, in.via)
	}
	return nil
}

// execAgent is the agent of ECS Exec (ECS API, ManagedAgent: name).
const execAgent = "ExecuteCommandAgent"

// agentEnded is true for a container whose agent of ECS Exec has stopped: on Fargate it is
// not started again.
func agentEnded(t types.Task, container string) bool {
	for _, c := range t.Containers {
		if aws.ToString(c.Name) != container {
			continue
		}
		for _, a := range c.ManagedAgents {
			if string(a.Name) == execAgent && aws.ToString(a.LastStatus) == string(types.DesiredStatusStopped) {
				return true
			}
		}
	}
	return false
}

// speakSSH greets the server behind a connection and returns a client of it. The
// server's key comes over the connection, which AWS or another server that was
// greeted so vouches for.
func speakSSH(ctx context.Context, conn net.Conn) (*ssh.Client, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // reads end with it
	defer stop()
	client, err := greet(conn)
	if err == nil && !stop() {
		err = errors.Join(ctx.Err(), client.Close())
	}
	if err != nil {
		_ = conn.Close() // mostly closed already
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	return client, nil
}

func greet(conn net.Conn) (*ssh.Client, error) {
	from, ok := conn.(*lineConn)
	var lines *bufio.Reader
	if ok {
		lines = from.lines
	} else {
		lines = bufio.NewReader(conn)
		conn = buffered{conn, lines}
	}
	raw, err := intask.Hello(lines)
	if err != nil {
		return nil, err
	}
	key, err := ssh.ParsePublicKey(raw)
	if err != nil {
		return nil, fmt.Errorf("the key of the server in the task cannot be read: %w", err)
	}
	if ok {
		from.begin()
	}
	c, channels, requests, err := ssh.NewClientConn(conn, "burstlet-agent", &ssh.ClientConfig{
		User: "root", HostKeyCallback: ssh.FixedHostKey(key), HostKeyAlgorithms: []string{key.Type()},
		ClientVersion: "SSH-2.0-burstlet",
	})
	if err != nil {
		return nil, fmt.Errorf("speak to the server in the task: %w", err)
	}
	return ssh.NewClient(c, channels, requests), nil
}

// buffered is a connection from which more was read than was wanted.
type buffered struct {
	net.Conn
	from *bufio.Reader
}

// Read reads.
func (b buffered) Read(p []byte) (int, error) { return b.from.Read(p) }

// lineConn carries bytes over a session: first its text, then lines of base64.
type lineConn struct {
	undated
	session *ssm.Session
	// broken is true once nothing more can arrive.
	broken atomic.Bool
	lines  *bufio.Reader
	in     io.Reader
	out    io.Writer
}

func overSession(s *ssm.Session) *lineConn {
	return &lineConn{session: s, lines: bufio.NewReader(s)}
}

// begin is the end of text.
func (c *lineConn) begin() {
	c.in, c.out = intask.NewLineReader(c.lines), intask.NewLineWriter(c.session)
}

// Read reads what lines hold.
func (c *lineConn) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	if err != nil {
		c.broken.Store(true)
	}
	return n, err
}

// Write writes whole lines.
func (c *lineConn) Write(p []byte) (int, error) { return c.out.Write(p) }

// Close closes the session.
func (c *lineConn) Close() error { return c.session.Close() }

// undated is what a connection has that knows neither addresses nor deadlines.
type undated struct{}

// LocalAddr is a name.
func (undated) LocalAddr() net.Addr { return inTask("burstlet") }

// RemoteAddr is a name.
func (undated) RemoteAddr() net.Addr { return inTask("task") }

// SetDeadline is refused.
func (undated) SetDeadline(time.Time) error { return os.ErrNoDeadline }

// SetReadDeadline is refused.
func (undated) SetReadDeadline(time.Time) error { return os.ErrNoDeadline }

// SetWriteDeadline is refused.
func (undated) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

// inTask is the address of something in a task.
type inTask string

// Network is that of sessions.
func (inTask) Network() string { return "ecs" }

func (a inTask) String() string { return string(a) }
