package ecsprocess

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// child is the process: it ends with its owner, even when that is killed.
type child struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how it ended; valid once done is closed
}

// startChild starts a program. Its standard output is closed when it has ended.
func startChild(program string, args []string, out io.WriteCloser, log io.Writer) (*child, error) {
	c := &child{cmd: exec.Command(program, args...), done: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = out, log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL,
		Setpgid:   true, // a terminal's Ctrl-C is for the owner, which ends things in order
	}
	started := make(chan error, 1)
	go func() {
		defer close(c.done)
		// The parent's death is that of the thread that started the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.err = errors.Join(c.cmd.Wait(), out.Close())
		}
	}()
	if err := <-started; err != nil {
		<-c.done
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	return c, nil
}

// stop ends the child with SIGTERM, and with SIGKILL after the grace or when ctx
// ends, and returns once it is gone.
func (c *child) stop(ctx context.Context) error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end ECS: %w", err)
	}
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-c.done:
		if c.err != nil {
			return fmt.Errorf("ECS did not end well: %w", c.err)
		}
		return nil
	case <-grace.C:
	case <-ctx.Done():
	}
	err := c.cmd.Process.Kill()
	<-c.done
	return errors.Join(errors.New("ECS did not end when it was asked to"), err)
}

// Build builds test/cmd/ecs and burstlet's in-task binary into a directory, from
// the checkout around the working directory.
func Build(ctx context.Context, dir string) (ecs, task string, err error) {
	ecs, task = filepath.Join(dir, "ecs"), filepath.Join(dir, "burstlet-task")
	for _, build := range []struct {
		path, pkg string
		env       string
	}{
		{ecs, "github.com/burstlet/burstlet/test/cmd/ecs", "CGO_ENABLED=0"},
		{task, "github.com/burstlet/burstlet/cmd/burstlet-task", "CGO_ENABLED=0"},
	} {
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", build.path, build.pkg)
		cmd.Env = append(os.Environ(), build.env)
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", "", fmt.Errorf("build %s: %w\n%s", build.pkg, err, out)
		}
	}
	return ecs, task, nil
}
