package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/burstlet/burstlet/test/parts/controlplane"
)

// childGrace is how long a child may take to end: longer than burstlet takes to
// write its last statuses.
const childGrace = 2 * time.Minute

// child is a program that runs beside the demo and ends with it, even when the
// demo is killed.
type child struct {
	name   string
	cmd    *exec.Cmd
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended
	err    error         // how it ended; valid once done is closed
}

// startChild starts a program with its output in a file, and env beside what the
// demo's own environment holds.
func startChild(name, path string, args []string, logPath string, env ...string) (*child, error) {
	log, err := os.Create(logPath)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	// It lives until it is stopped, whatever context the start has.
	ctx, cancel := context.WithCancel(context.Background())
	c := &child{name: name, cmd: exec.CommandContext(ctx, path, args...), cancel: cancel, done: make(chan struct{})}
	c.cmd.Env = append(controlplane.NodeEnv(os.Environ()), env...)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	c.cmd.Cancel = func() error { return c.cmd.Process.Signal(syscall.SIGTERM) }
	c.cmd.WaitDelay = childGrace
	c.cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL,
		Setpgid:   true, // a terminal's Ctrl-C is for the demo, which ends things in order
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
			c.err = c.cmd.Wait()
		}
	}()
	err = errors.Join(<-started, log.Close()) // the child has its own descriptor
	if err != nil {
		cancel()
		<-c.done
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return c, nil
}

// wait returns how the child ended by itself, or nil when ctx ends before.
func (c *child) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-c.done:
	}
	if c.err != nil {
		return fmt.Errorf("%s ended: %w", c.name, c.err)
	}
	return fmt.Errorf("%s ended by itself", c.name)
}

// stop ends the child with SIGTERM, and with SIGKILL after the grace or when ctx
// ends, and returns once it is gone. How it ended is for exit to say.
func (c *child) stop(ctx context.Context) error {
	c.cancel()
	select {
	case <-c.done:
	case <-ctx.Done():
		if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("kill %s: %w", c.name, err)
		}
		<-c.done
	}
	return nil
}

// exit returns how a stopped child ended; nil for a success.
func (c *child) exit() error {
	<-c.done
	// Wait returns the context's error for a success after a stop.
	if c.err != nil && !errors.Is(c.err, context.Canceled) {
		return fmt.Errorf("%s did not end well: %w", c.name, c.err)
	}
	return nil
}
