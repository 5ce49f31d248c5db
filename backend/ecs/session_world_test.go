package ecs

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/creack/pty"

	"github.com/burstlet/burstlet/backend/ecs/intask"
	"github.com/burstlet/burstlet/backend/pause"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
)

// world stands for what runs in the tasks of a server that runs nothing: the servers
// of their containers, whose commands are processes of this machine.
type world struct {
	*testing.T
	client *awsecs.Client
	dir    string

	ctx     context.Context //nolint:containedctx // the life of all that runs
	running sync.WaitGroup

	// old is true of tasks whose program takes no graces.
	old bool
	// slow is how long a supervisor takes to answer that it was told of a grace.
	slow time.Duration

	mu    sync.Mutex
	tasks map[string]*worldTask
	// graces are what supervisors were told.
	graces []string
}

// worldTask is one task.
type worldTask struct {
	dir string
	// ports are where what listens in the task really does, by its port there.
	ports map[string]string
	began time.Time
}

// newWorld makes a server and its world; what it makes ends with the test.
func newWorld(t *testing.T, cfg stub.Config) (w *world, s *stub.Server, url string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "world") // short: it holds sockets
	must(t, err)
	w = &world{T: t, dir: dir, tasks: map[string]*worldTask{}}
	var end context.CancelFunc
	w.ctx, end = context.WithCancel(context.Background())
	cfg.Exec = w.exec
	s = stub.New(cfg)
	url, stop, err := s.Start()
	must(t, err)
	t.Cleanup(func() {
		stop()
		end()
		w.running.Wait()
		must(t, os.RemoveAll(dir))
	})
	w.client = awsecs.New(awsecs.Options{
		Region: "us-east-1", BaseEndpoint: &url,
		Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "not-a-secret", ""),
	})
	return w, s, url
}

// exec runs the program in burstlet-agent as the agent of ECS Exec does.
func (w *world) exec(ctx context.Context, call stub.ExecCall) (int, error) {
	name := call.Container // without a name it is the container's own server
	switch argv := call.Argv; {
	case call.Container == "burstlet-agent" && len(argv) == 3 && argv[0] == intask.Program &&
		argv[1] == intask.CommandSession:
		name = argv[2]
	case call.Container != "burstlet-agent" && len(argv) == 2 && argv[0] == intask.Supervisor &&
		argv[1] == intask.CommandSession:
	default:
		return 0, errors.New("no such file or directory")
	}
	task, err := w.task(ctx, call.TaskARN)
	if err != nil {
		return 0, err
	}
	master, slave, err := pty.Open()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var carrying sync.WaitGroup
	carrying.Go(func() { _, _ = io.Copy(call.Stdout, master) }) // ends with the terminal
	carrying.Go(func() {
		_, _ = io.Copy(master, call.Stdin) // ends with the session
		cancel()
	})
	err = intask.CarrySession(ctx, slave, slave, filepath.Join(task.dir, name, intask.AgentSocket))
	err = errors.Join(err, slave.Close(), call.Stdin.(io.Closer).Close())
	carrying.Wait()
	if err = errors.Join(err, master.Close()); err != nil {
		w.Log(err)
	}
	return 0, nil
}

// task starts the servers of a task when it is first reached.
func (w *world) task(ctx context.Context, arn string) (*worldTask, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.tasks[arn]; t != nil {
		return t, nil
	}
	tasks, err := w.client.DescribeTasks(ctx, &awsecs.DescribeTasksInput{Tasks: []string{arn}})
	if err != nil {
		return nil, err
	}
	def, err := w.client.DescribeTaskDefinition(
		ctx, &awsecs.DescribeTaskDefinitionInput{TaskDefinition: tasks.Tasks[0].TaskDefinitionArn},
	)
	if err != nil {
		return nil, err
	}
	t := &worldTask{
		dir: filepath.Join(w.dir, arn[strings.LastIndex(arn, "/")+1:][:8]), ports: map[string]string{}, began: time.Now(),
	}
	for _, c := range def.TaskDefinition.ContainerDefinitions {
		command, env := c.Command, environOf(c.Environment)
		for _, o := range tasks.Tasks[0].Overrides.ContainerOverrides {
			if *o.Name == *c.Name {
				env = append(env, environOf(o.Environment)...)
				if o.Command != nil {
					command = o.Command
				}
			}
		}
		server := &intask.Server{Starter: starter(env), Log: log.New(io.Discard, "", 0)}
		server.Dial = t.dial
		if !w.old {
			server.Shorten = func(ctx context.Context, grace time.Duration) bool {
				if pause.For(ctx, w.slow) != nil {
					return false
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				w.graces = append(w.graces, *c.Name+" "+grace.String())
				return true
			}
		}
		if *c.Name == "burstlet-agent" {
			server.Shorten = nil
			server.Containers = t.dir
			server.Stats = func(context.Context) (json.RawMessage, error) { return t.stats(def.TaskDefinition) }
		}
		if err := w.serve(filepath.Join(t.dir, *c.Name), server); err != nil {
			return nil, err
		}
		if err := w.listen(t, command); err != nil {
			return nil, err
		}
	}
	w.tasks[arn] = t
	return t, nil
}

func environOf(kvs []types.KeyValuePair) []string {
	var env []string
	for _, kv := range kvs {
		if !strings.HasPrefix(*kv.Name, intask.EnvPrefix) {
			env = append(env, *kv.Name+"="+*kv.Value)
		}
	}
	return env
}

// serve lets a server answer.
func (w *world) serve(dir string, server *intask.Server) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	l, err := intask.ListenAgent(filepath.Join(dir, intask.AgentSocket))
	if err != nil {
		return err
	}
	w.running.Go(func() {
		if err := server.Serve(w.ctx, l); err != nil {
			w.Error(err)
		}
	})
	return nil
}

// listen does what a container's command would, if that is to listen.
func (w *world) listen(t *worldTask, command []string) error {
	i := slices.Index(command, "-p")
	if i < 0 || i+1 >= len(command) {
		return nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	t.ports[command[i+1]] = l.Addr().String()
	context.AfterFunc(w.ctx, func() { _ = l.Close() })
	w.running.Go(func() {
		if slices.Contains(command, "httpd") {
			_ = http.Serve(l, http.NotFoundHandler()) //nolint:gosec // a test's; ends with the listener
			return
		}
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			w.running.Go(func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			})
		}
	})
	return nil
}

// dial connects as from inside the task: all of its addresses are one here.
func (t *worldTask) dial(ctx context.Context, network, address string) (net.Conn, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	to, ok := t.ports[port]
	if !ok {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	return (&net.Dialer{}).DialContext(ctx, network, to)
}

// stats are made up, and grow.
func (t *worldTask) stats(def *types.TaskDefinition) (json.RawMessage, error) {
	type object = map[string]any
	var containers []object
	stats := object{}
	for _, c := range def.ContainerDefinitions {
		containers = append(containers, object{"DockerId": "id-" + *c.Name, "Name": *c.Name, "StartedAt": t.began})
		stats["id-"+*c.Name] = object{
			"read": time.Now(), "cpu_stats": object{"cpu_usage": object{"total_usage": time.Since(t.began)}},
			"memory_stats": object{
				"usage": 2 << 20, "limit": 512 << 20, "stats": object{"inactive_file": 1 << 20, "anon": 1 << 19},
			},
			"networks": object{"eth1": object{"rx_bytes": time.Since(t.began), "tx_bytes": 7}},
		}
	}
	return json.Marshal(object{"task": object{"Containers": containers}, "stats": stats})
}

// starter starts processes of this machine with an environment.
type starter []string

type started struct{ cmd *exec.Cmd }

// Start starts a command.
func (env starter) Start(c intask.Command) (intask.Process, error) {
	path, err := exec.LookPath(c.Argv[0])
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{
		Path: path, Args: c.Argv, Env: append(append([]string{"PATH=" + os.Getenv("PATH")}, env...), c.Env...),
		Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr, SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if c.Terminal {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return started{cmd}, nil
}

// Wait waits for it.
func (s started) Wait() int {
	_ = s.cmd.Wait() // the state tells
	if status, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return s.cmd.ProcessState.ExitCode()
}

// Signal is for the group.
func (s started) Signal(sig syscall.Signal) error { return syscall.Kill(-s.cmd.Process.Pid, sig) }
