// Package child supervises programs that run beside a test, or beside a program of the
// tests. A child ends with its owner, even when that is killed; how it ended is an
// error unless it was asked to end; and what the race detector printed is found however
// it ended: one that is killed has no exit code to tell of it.
package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// defaultGrace is longer than burstlet takes to write its last statuses.
	defaultGrace = 2 * time.Minute
	// outputGrace is how long a grandchild may hold the output of a child that ended.
	outputGrace = 10 * time.Second
)

var (
	// ErrRace is in the error of a child that the race detector found a race in.
	ErrRace = errors.New("the race detector found a data race")
	// ErrExit is in the error of a child that ended when it was asked to, but not with
	// exit code 0.
	ErrExit = errors.New("ended with a failure")
)

// Config says what to start.
type Config struct {
	// Name is what errors call it; "": the program's file name.
	Name string
	// Program is a path, or a name to look up in PATH.
	Program string
	Args    []string
	// Env is the whole environment; nil: that of this process.
	Env []string
	// Dir is the working directory; "": that of this process.
	Dir string
	// Log receives what it prints; nil: nothing does.
	Log io.Writer
	// LogFile is, instead, a file to whose end it is written; made if it is missing.
	LogFile string
	// Stdout receives its standard output, if that is not for Log.
	Stdout io.Writer
	// Grace is how long it may take to end after SIGTERM; 0: two minutes.
	Grace time.Duration
}

// Child is a program that was started.
type Child struct {
	name  string
	grace time.Duration
	cmd   *exec.Cmd
	races races
	file  *os.File      // LogFile, until it has ended
	asked atomic.Int32  // the signal that asked it to end; 0: none did
	done  chan struct{} // closed when it has ended and was reaped
	// How it ended, and whether its log could be written; valid once done is closed.
	err, logErr error
}

// Start starts a program.
func Start(cfg Config) (*Child, error) {
	c := &Child{name: cfg.Name, grace: cfg.Grace, cmd: exec.Command(cfg.Program, cfg.Args...), done: make(chan struct{})}
	if c.name == "" {
		c.name = filepath.Base(cfg.Program)
	}
	if c.grace == 0 {
		c.grace = defaultGrace
	}
	switch {
	case cfg.LogFile != "":
		var err error
		if c.file, err = os.OpenFile(cfg.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			return nil, fmt.Errorf("start %s: %w", c.name, err)
		}
		cfg.Log = c.file
	case cfg.Log == nil:
		cfg.Log = io.Discard
	}
	c.races.to = cfg.Log
	c.cmd.Env, c.cmd.Dir = cfg.Env, cfg.Dir
	c.cmd.Stdout, c.cmd.Stderr = &c.races, &c.races
	if cfg.Stdout != nil {
		c.cmd.Stdout = cfg.Stdout
	}
	c.cmd.WaitDelay = outputGrace
	c.cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL,
		Setpgid:   true, // a terminal's Ctrl-C is for the owner, which ends things in order
	}
	started := make(chan error, 1)
	go c.own(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	return c, nil
}

// own starts the program and waits for it on one thread: the parent's death, with
// which it ends, is that of the thread.
func (c *Child) own(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.cmd.Start()
	if err != nil {
		started <- errors.Join(err, c.closeLog())
		return
	}
	started <- nil
	c.err = c.cmd.Wait()
	c.logErr = c.closeLog()
	close(c.done)
}

func (c *Child) closeLog() error {
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}

// Pid is its process ID.
func (c *Child) Pid() int { return c.cmd.Process.Pid }

// Done is closed when it has ended, in whichever way.
func (c *Child) Done() <-chan struct{} { return c.done }

// Err is nil while it runs, and when it ended as it was asked to. It is an error when
// it ended by itself, when it ended with a failure after Stop, and of a data race.
func (c *Child) Err() error {
	select {
	case <-c.done:
	default:
		return nil
	}
	var errs []error
	switch asked := syscall.Signal(c.asked.Load()); {
	case asked == 0 && c.err == nil:
		errs = append(errs, fmt.Errorf("%s ended by itself", c.name))
	case asked == 0:
		errs = append(errs, fmt.Errorf("%s ended by itself: %w", c.name, c.err))
	case asked != syscall.SIGKILL && c.err != nil:
		errs = append(errs, fmt.Errorf("%s: %w after %s: %w", c.name, ErrExit, asked, c.err))
	}
	if c.logErr != nil {
		errs = append(errs, fmt.Errorf("close the log of %s: %w", c.name, c.logErr))
	}
	if report := c.races.found(); report != "" {
		errs = append(errs, fmt.Errorf("%s: %w:\n%s", c.name, ErrRace, report))
	}
	return errors.Join(errs...)
}

// Wait returns Err once it has ended, or nil when ctx ends before.
func (c *Child) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-c.done:
		return c.Err()
	}
}

// Signal sends a signal. One that ends programs (SIGTERM, SIGINT, SIGKILL) makes its
// end one that was asked for. After its end nothing is sent.
func (c *Child) Signal(s syscall.Signal) error {
	select {
	case <-c.done:
		return nil
	default:
	}
	if s == syscall.SIGTERM || s == syscall.SIGINT || s == syscall.SIGKILL {
		c.asked.CompareAndSwap(0, int32(s))
	}
	if err := c.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %s to %s: %w", s, c.name, err)
	}
	return nil
}

// Kill ends it with SIGKILL, waits for its end, and returns Err.
func (c *Child) Kill() error {
	if err := c.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-c.done
	return c.Err()
}

// Stop ends it as an operator does, with SIGTERM, waits for its end, and returns Err.
// After its grace, or when ctx ends, it is killed, which is an error. Of a child that
// has ended it returns how.
func (c *Child) Stop(ctx context.Context) error {
	if err := c.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	grace := time.NewTimer(c.grace)
	defer grace.Stop()
	var late error
	select {
	case <-c.done:
		return c.Err()
	case <-grace.C:
		late = fmt.Errorf("%s did not end within %s of SIGTERM", c.name, c.grace)
	case <-ctx.Done():
		late = fmt.Errorf("%s did not end after SIGTERM: %w", c.name, context.Cause(ctx))
	}
	return errors.Join(late, c.Kill())
}
