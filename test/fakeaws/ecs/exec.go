package ecs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// TerminalSize is the size of a terminal in characters.
type TerminalSize struct{ Cols, Rows uint16 }

// ExecCall is a command to run on a terminal in a container of a task.
type ExecCall struct {
	TaskARN, Container string
	Argv               []string
	// Sizes are the terminal's first size and its changes; nil: it is never told.
	Sizes <-chan TerminalSize
	// Stdin is to end when the command has: something may still read from it then.
	Stdin  io.Reader
	Stdout io.Writer
}

// errNoExec is what Exec answers where nothing runs commands.
var errNoExec = errors.New("no container runs: set Config.Exec or Config.Runner")

// Exec runs a command on a terminal in a container and returns its exit code. The
// end of ctx kills it. It fails only if the command could not run, or ctx ended.
func (s *Server) Exec(ctx context.Context, call ExecCall) (exitCode int, err error) {
	run, err := s.execOf(call)
	if err != nil {
		return 0, err
	}
	return run(ctx, call)
}

func (s *Server) execOf(call ExecCall) (func(context.Context, ExecCall) (int, error), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.findTask(call.TaskARN)
	if t == nil || !s.containerRunning(t, call.Container, time.Now()) {
		return nil, fmt.Errorf("container %s of task %s does not run", call.Container, call.TaskARN)
	}
	if t.driver != nil {
		running := t.driver.parts[t.def.index(call.Container)].running
		if running == nil { // between two runs
			return nil, fmt.Errorf("container %s of task %s is being restarted", call.Container, call.TaskARN)
		}
		return running.Terminal, nil
	}
	if s.cfg.Exec == nil {
		return nil, errNoExec
	}
	return s.cfg.Exec, nil
}

// containerRunning is true while a container of a task runs.
func (s *Server) containerRunning(t *task, name string, now time.Time) bool {
	i := t.def.index(name)
	if i < 0 {
		return false
	}
	c, at := &t.life.containers[i], now.Sub(t.created)
	return c.ran() && at >= c.start && at < c.end
}
