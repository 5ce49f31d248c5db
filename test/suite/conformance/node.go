package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/burstlet/burstlet/test/parts/controlplane"
)

// nodeGrace is how long burstlet may take to end: longer than it takes to write its
// last statuses.
const nodeGrace = 2 * time.Minute

// node is burstlet, a process that can be killed and started again.
type node struct {
	program, config, log string
	env                  []string

	mu      sync.Mutex
	process *os.Process
	done    chan struct{} // closed when the process has ended
	wanted  bool          // it is to run: its end is a failure
	failed  chan error
}

// newNode is one that is not started; env are variables beside this process's own.
func newNode(program, config, log string, env ...string) *node {
	return &node{program: program, config: config, log: log, env: env, failed: make(chan error, 1)}
}

// start starts the process, whose output is added to its log.
func (n *node) start() error {
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("start burstlet: %w", err)
	}
	cmd := exec.Command(n.program, "run", "--config", n.config)
	cmd.Env = append(controlplane.NodeEnv(os.Environ()), n.env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL,
		Setpgid:   true, // a terminal's Ctrl-C is for the owner, which ends things in order
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	done, started := make(chan struct{}), make(chan error, 1)
	go n.own(cmd, started, done)
	err = errors.Join(<-started, log.Close()) // the process has its own descriptor
	if err != nil {
		return fmt.Errorf("start burstlet: %w", err)
	}
	n.process, n.done, n.wanted = cmd.Process, done, true
	return nil
}

// own starts the process and waits for it on one thread: the parent's death, that
// ends it, is that of the thread.
func (n *node) own(cmd *exec.Cmd, started chan<- error, done chan<- struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(done)
	err := cmd.Start()
	started <- err
	if err != nil {
		return
	}
	err = cmd.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.wanted && n.process == cmd.Process {
		select {
		case n.failed <- fmt.Errorf("burstlet ended by itself: %w; see %s", err, n.log):
		default: // one is enough
		}
	}
}

// signal ends the process, and returns what is closed when it has ended.
func (n *node) signal(with os.Signal) (<-chan struct{}, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		ended := make(chan struct{})
		close(ended)
		return ended, nil
	}
	n.wanted = false
	if err := n.process.Signal(with); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return nil, fmt.Errorf("signal burstlet: %w", err)
	}
	return n.done, nil
}

// kill ends the process with SIGKILL and returns when it is gone.
func (n *node) kill() error {
	done, err := n.signal(syscall.SIGKILL)
	if err != nil {
		return err
	}
	<-done
	return nil
}

// stop ends the process as an operator does; with the grace over, or ctx, as kill
// does.
func (n *node) stop(ctx context.Context) error {
	done, err := n.signal(syscall.SIGTERM)
	if err != nil {
		return err
	}
	grace := time.NewTimer(nodeGrace)
	defer grace.Stop()
	select {
	case <-done:
		return nil
	case <-grace.C:
	case <-ctx.Done():
	}
	return errors.Join(errors.New("burstlet did not end when it was asked to"), n.kill())
}
