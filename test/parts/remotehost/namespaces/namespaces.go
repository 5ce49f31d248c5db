package namespaces

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
)

//go:embed loop.sh
var loopScript string

// Config says what runs in the namespaces.
type Config struct {
	// Dir is where PID 1 starts and where its script is written.
	Dir string
	// Setup is the beginning of PID 1's script. It makes the host, defines a
	// function daemon_NAME for each daemon, which ends with exec, and must not
	// read standard input.
	Setup string
	// Args are the script's $1 and so on.
	Args []string
	// Log gets what the script and the daemons write; nil discards it.
	Log io.Writer
}

// Namespaces is the Go side of PID 1. Its methods may be called by many
// goroutines, but those that start and kill one daemon by one.
type Namespaces struct {
	cmd     *exec.Cmd
	control io.WriteCloser
	log     *Tail

	mu      sync.Mutex
	ready   bool
	pids    map[string]string // of running daemons, as PID 1 sees them
	starts  map[string]int    // how often a daemon was started
	killed  map[string]bool   // the pids that KillDaemon asked for
	failed  map[string]string // the exit codes of daemons that ended by themselves
	changed chan struct{}     // closed and replaced at every event
	ended   bool              // PID 1 is gone or going
	done    chan struct{}     // closed when PID 1 was waited for
	waitErr error             // of PID 1, after done
}

// Start makes the namespaces and returns once the script has set them up. They
// last until Stop; ctx bounds only the start.
func Start(ctx context.Context, cfg Config) (*Namespaces, error) {
	n := &Namespaces{
		log: &Tail{next: cfg.Log}, pids: map[string]string{}, starts: map[string]int{},
		killed: map[string]bool{}, failed: map[string]string{},
		changed: make(chan struct{}), done: make(chan struct{}),
	}
	script := filepath.Join(cfg.Dir, "init.sh")
	if err := os.WriteFile(script, []byte(cfg.Setup+"\n"+loopScript), 0o644); err != nil {
		return nil, fmt.Errorf("write init script: %w", err)
	}
	n.cmd = exec.Command("/bin/sh", append([]string{script}, cfg.Args...)...)
	n.cmd.Dir = cfg.Dir
	n.cmd.Env = Env()
	n.cmd.Stderr = &reports{log: n.log, handle: n.handle}
	n.cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC |
			syscall.CLONE_NEWPID,
		Setsid: true, // Ctrl-C in a terminal is the owner's to handle
	}
	var err error
	if n.control, err = n.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("make control pipe: %w", err)
	}
	if err := n.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start host: %w", err)
	}
	go n.watch()
	if err := n.await(ctx, func() bool { return n.ready }); err != nil {
		return nil, errors.Join(fmt.Errorf("set up host: %w", err), n.Stop())
	}
	return n, nil
}

// watch waits for the script's end, and the end of its reports; Stop waits for it.
func (n *Namespaces) watch() {
	err := n.cmd.Wait()
	n.mu.Lock()
	n.waitErr = err
	n.ended = true
	clear(n.pids)
	n.notify()
	n.mu.Unlock()
	close(n.done)
}

// handle takes note of a report.
func (n *Namespaces) handle(fields []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case len(fields) == 1 && fields[0] == "ready":
		n.ready = true
	case len(fields) == 3 && fields[0] == "pid":
		n.pids[fields[1]] = fields[2]
		n.starts[fields[1]]++
	case len(fields) == 3 && fields[0] == "exited":
		if !n.killed[n.pids[fields[1]]] {
			n.failed[fields[1]] = fields[2]
		}
		delete(n.pids, fields[1])
	}
	n.notify()
}

// notify wakes all that await; n.mu is held.
func (n *Namespaces) notify() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// await returns when condition, called with n.mu held, is true.
func (n *Namespaces) await(ctx context.Context, condition func() bool) error {
	for {
		n.mu.Lock()
		met, ended, changed := condition(), n.ended, n.changed
		n.mu.Unlock()
		switch {
		case met:
			return nil
		case ended:
			return fmt.Errorf("host ended:\n%s", n.log)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Running says whether a daemon runs, as far as was reported.
func (n *Namespaces) Running(daemon string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pids[daemon] != ""
}

// Failed is an error if the daemon ended by itself since the start.
func (n *Namespaces) Failed(daemon string) error {
	n.mu.Lock()
	code, failed := n.failed[daemon]
	n.mu.Unlock()
	if !failed {
		return nil
	}
	return fmt.Errorf("%s ended by itself, with code %s:\n%s", daemon, code, n.log)
}

// AwaitFailure returns when the daemon has ended by itself, with [Namespaces.Failed],
// or with nil when ctx or PID 1 has ended.
func (n *Namespaces) AwaitFailure(ctx context.Context, daemon string) error {
	// What ends it is said by Failed.
	_ = n.await(ctx, func() bool { _, failed := n.failed[daemon]; return failed })
	return n.Failed(daemon)
}

// StartDaemon returns when the process was started, not when it serves.
func (n *Namespaces) StartDaemon(ctx context.Context, daemon string) error {
	n.mu.Lock()
	running, before := n.pids[daemon] != "", n.starts[daemon]
	n.mu.Unlock()
	if running {
		return fmt.Errorf("%s is running already", daemon)
	}
	if _, err := fmt.Fprintf(n.control, "start %s\n", daemon); err != nil {
		return fmt.Errorf("ask for %s: %w", daemon, err)
	}
	if err := n.await(ctx, func() bool { return n.starts[daemon] > before }); err != nil {
		return fmt.Errorf("start %s: %w", daemon, err)
	}
	return nil
}

// KillDaemon kills a daemon (SIGKILL) and returns when the process is gone; it
// is fine if none ran.
func (n *Namespaces) KillDaemon(ctx context.Context, daemon string) error {
	n.mu.Lock()
	pid := n.pids[daemon]
	n.killed[pid] = true
	n.mu.Unlock()
	if pid == "" {
		return nil
	}
	if _, err := fmt.Fprintf(n.control, "kill %s\n", pid); err != nil {
		return fmt.Errorf("ask to kill %s: %w", daemon, err)
	}
	if err := n.await(ctx, func() bool { return n.pids[daemon] != pid }); err != nil {
		return fmt.Errorf("kill %s: %w", daemon, err)
	}
	return nil
}

// Pid is the machine's PID of PID 1.
func (n *Namespaces) Pid() int { return n.cmd.Process.Pid }

// Log is the end of what the script and the daemons wrote.
func (n *Namespaces) Log() string { return n.log.String() }

// Stop ends PID 1 and with it every process of the host. The kernel reaps
// them all before PID 1 itself, so that none is left when Stop returns.
func (n *Namespaces) Stop() error {
	if err := n.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill host: %w", err)
	}
	<-n.done
	var exit *exec.ExitError
	if n.waitErr != nil && !errors.As(n.waitErr, &exit) {
		return fmt.Errorf("wait for host: %w", n.waitErr)
	}
	return nil
}
