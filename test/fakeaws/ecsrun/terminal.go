package ecsrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	containersapi "github.com/containerd/containerd/api/services/containers/v1"
	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/burstlet/burstlet/test/fakeaws/ecs"
)

// processType is how containerd names a process of the OCI runtime specification.
const processType = "types.containerd.io/opencontainers/runtime-spec/1/Process"

// terminal is a command on a terminal. It is run by containerd itself: a command of
// CRI lives on when its caller goes.
type terminal struct {
	c       *container
	exec    string // its id
	in, out string // FIFOs
}

// Terminal runs a command on a terminal. It is root's, whatever the container's user
// (ECS developer guide, "Monitor Amazon ECS containers with ECS Exec").
func (c *container) Terminal(ctx context.Context, call ecs.ExecCall) (code int, err error) {
	x := &terminal{c: c, exec: "terminal-" + strconv.FormatUint(c.t.r.execs.Add(1), 10)}
	x.in, x.out = filepath.Join(c.t.dir, x.exec+".in"), filepath.Join(c.t.dir, x.exec+".out")
	defer func() { err = errors.Join(err, x.clear()) }()
	process, err := c.rootProcess(ctx, call.Argv, true)
	if err != nil {
		return 0, err
	}
	stdin, stdout, held, err := x.pipes()
	if err != nil {
		return 0, err
	}
	defer func() {
		err = errors.Join(err, ignoreClosed(stdin.Close()), ignoreClosed(stdout.Close()), ignoreClosed(held.Close()))
	}()
	_, err = c.t.r.tasks.Exec(inNamespace(ctx), &tasksapi.ExecProcessRequest{
		ContainerID: c.id, ExecID: x.exec, Terminal: true, Stdin: x.in, Stdout: x.out, Spec: process,
	})
	if err != nil {
		return 0, errors.New(status.Convert(err).Message())
	}
	defer func() { err = errors.Join(err, x.remove(ctx)) }()
	if _, err := c.t.r.tasks.Start(
		inNamespace(ctx), &tasksapi.StartRequest{ContainerID: c.id, ExecID: x.exec},
	); err != nil {
		return 0, errors.New(status.Convert(err).Message())
	}
	if err := held.Close(); err != nil {
		return 0, fmt.Errorf("close pipe of command: %w", err)
	}
	return x.carry(ctx, call, stdin, stdout)
}

// rootProcess is a command as the container's own specification has it, but root's.
func (c *container) rootProcess(ctx context.Context, argv []string, terminal bool) (*anypb.Any, error) {
	reply, err := c.t.r.store.Get(inNamespace(ctx), &containersapi.GetContainerRequest{ID: c.id})
	if err != nil {
		return nil, fmt.Errorf("get specification of container: %w", err)
	}
	var spec struct{ Process object }
	if err := json.Unmarshal(reply.GetContainer().GetSpec().GetValue(), &spec); err != nil {
		return nil, fmt.Errorf("read specification of container: %w", err)
	}
	p := spec.Process
	p["args"], p["terminal"], p["user"] = argv, terminal, object{"uid": 0, "gid": 0}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("write specification of command: %w", err)
	}
	return &anypb.Any{TypeUrl: processType, Value: text}, nil
}

// pipes makes the FIFOs. held keeps stdout from ending before containerd opens it.
func (x *terminal) pipes() (stdin, stdout, held *os.File, err error) {
	for _, path := range []string{x.in, x.out} {
		if err := unix.Mkfifo(path, 0o600); err != nil {
			return nil, nil, nil, fmt.Errorf("make pipe of command: %w", err)
		}
	}
	var opened []*os.File
	for _, f := range []struct {
		path string
		flag int
	}{{x.in, os.O_RDWR | unix.O_NONBLOCK}, {x.out, os.O_RDWR}, {x.out, os.O_RDONLY | unix.O_NONBLOCK}} {
		file, err := os.OpenFile(f.path, f.flag, 0)
		if err != nil {
			for _, other := range opened {
				err = errors.Join(err, other.Close())
			}
			return nil, nil, nil, fmt.Errorf("open pipe of command: %w", err)
		}
		opened = append(opened, file)
	}
	return opened[0], opened[2], opened[1], nil
}

// carry passes on what is typed, shown and resized until the command ends. The end
// of ctx kills it.
func (x *terminal) carry(ctx context.Context, call ecs.ExecCall, stdin io.WriteCloser, stdout io.Reader) (int, error) {
	ended, end := context.WithCancel(ctx)
	defer end()
	if call.Stdin != nil {
		go func() {
			// It ends with its input, or with the pipe, which is closed when the command
			// has ended. A terminal has no end of input: nothing is passed on then.
			_, _ = io.Copy(stdin, call.Stdin)
		}()
	}
	go x.resize(ended, call.Sizes)
	shown := make(chan error, 1)
	go func() { shown <- x.show(call.Stdout, stdout) }()
	lasting := context.WithoutCancel(ctx)
	go func() {
		<-ended.Done()
		if ctx.Err() != nil {
			// It may just have ended by itself.
			_, _ = x.c.t.r.tasks.Kill(
				inNamespace(lasting), &tasksapi.KillRequest{ContainerID: x.c.id, ExecID: x.exec, Signal: uint32(unix.SIGKILL)},
			)
		}
	}()
	reply, err := x.c.t.r.tasks.Wait(inNamespace(lasting), &tasksapi.WaitRequest{ContainerID: x.c.id, ExecID: x.exec})
	if err != nil {
		return 0, fmt.Errorf("wait for command: %w", errors.Join(err, ctx.Err()))
	}
	if ctx.Err() != nil {
		return 0, fmt.Errorf("run command: %w", ctx.Err())
	}
	select {
	case err = <-shown:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return int(reply.GetExitStatus()), err
}

func (x *terminal) show(to io.Writer, from io.Reader) error {
	if to == nil {
		to = io.Discard
	}
	if _, err := io.Copy(to, from); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("show output of command: %w", err)
	}
	return nil
}

func (x *terminal) resize(ctx context.Context, sizes <-chan ecs.TerminalSize) {
	for {
		select {
		case size, ok := <-sizes:
			if !ok {
				return
			}
			// It may have ended meanwhile; nobody looks at its terminal then.
			_, _ = x.c.t.r.tasks.ResizePty(inNamespace(ctx), &tasksapi.ResizePtyRequest{
				ContainerID: x.c.id, ExecID: x.exec, Width: uint32(size.Cols), Height: uint32(size.Rows),
			})
		case <-ctx.Done():
			return
		}
	}
}

// remove forgets the command, whose container may be gone.
func (x *terminal) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	_, err := x.c.t.r.tasks.DeleteProcess(
		inNamespace(ctx), &tasksapi.DeleteProcessRequest{ContainerID: x.c.id, ExecID: x.exec},
	)
	if err != nil && !isNotFound(err) {
		return fmt.Errorf("remove command: %w", err)
	}
	return nil
}

// clear removes the FIFOs, which go with the task too.
func (x *terminal) clear() error { return errors.Join(os.RemoveAll(x.in), os.RemoveAll(x.out)) }
