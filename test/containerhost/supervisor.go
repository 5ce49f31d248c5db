package containerhost

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// hostPath is the PATH inside the host, and of tools run for it.
const hostPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

//go:embed init.sh
var initScript string

// hostEnv is the whole environment of processes in the host: nothing of the
// caller's (proxies, credentials) gets in.
func hostEnv() []string { return []string{"PATH=" + hostPath, "LC_ALL=C"} }

// supervisor is the Go side of init.sh: the namespaces' PID 1.
type supervisor struct {
	cmd     *exec.Cmd
	control io.WriteCloser
	log     *tail

	snapshotter string

	mu         sync.Mutex
	containerd string        // PID inside the host, empty while none runs
	starts     int           // how often containerd was started
	changed    chan struct{} // closed and replaced at every event
	ended      bool          // PID 1 is gone or going
	done       chan struct{} // closed when PID 1 was waited for
	waitErr    error         // of PID 1, after done
}

// startSupervisor makes the namespaces and returns once they are set up.
func startSupervisor(ctx context.Context, dir, hostname string, log io.Writer) (*supervisor, error) {
	containerd, err := lookPath("containerd")
	if err != nil {
		return nil, fmt.Errorf("find containerd: %w", err)
	}
	s := &supervisor{log: &tail{next: log}, changed: make(chan struct{}), done: make(chan struct{})}
	script := filepath.Join(dir, "init.sh")
	if err := os.WriteFile(script, []byte(initScript), 0o644); err != nil {
		return nil, fmt.Errorf("write init script: %w", err)
	}
	s.cmd = exec.Command("/bin/sh", script, dir, hostname, containerd)
	s.cmd.Dir = dir
	s.cmd.Env = hostEnv()
	s.cmd.Stderr = s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWPID,
		Setsid:     true, // Ctrl-C in a terminal is the owner's to handle
	}
	if s.control, err = s.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("make control pipe: %w", err)
	}
	events, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("make event pipe: %w", err)
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start host: %w", err)
	}
	go s.watch(events)
	if err := s.await(ctx, func() bool { return s.snapshotter != "" }); err != nil {
		return nil, errors.Join(fmt.Errorf("set up host: %w", err), s.stop())
	}
	return s, nil
}

// watch follows the script's reports until its end; stop waits for it.
func (s *supervisor) watch(events io.Reader) {
	lines := bufio.NewScanner(events)
	for lines.Scan() {
		s.handle(lines.Text())
	}
	err := s.cmd.Wait()
	s.mu.Lock()
	s.waitErr = errors.Join(lines.Err(), err)
	s.ended, s.containerd = true, ""
	s.notify()
	s.mu.Unlock()
	close(s.done)
}

func (s *supervisor) handle(line string) {
	verb, arg, _ := strings.Cut(line, " ")
	s.mu.Lock()
	defer s.mu.Unlock()
	switch verb {
	case "ready":
		s.snapshotter = arg
	case "pid":
		s.containerd = arg
		s.starts++
	case "exited":
		s.containerd = ""
	}
	s.notify()
}

// notify wakes all that await; s.mu is held.
func (s *supervisor) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// await returns when condition, called with s.mu held, is true.
func (s *supervisor) await(ctx context.Context, condition func() bool) error {
	for {
		s.mu.Lock()
		met, ended, changed := condition(), s.ended, s.changed
		s.mu.Unlock()
		switch {
		case met:
			return nil
		case ended:
			return fmt.Errorf("host ended:\n%s", s.log.String())
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// running says whether containerd runs, as far as was reported.
func (s *supervisor) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.containerd != ""
}

// startContainerd returns when the process was started, not when it serves.
func (s *supervisor) startContainerd(ctx context.Context) error {
	s.mu.Lock()
	running, before := s.containerd != "", s.starts
	s.mu.Unlock()
	if running {
		return errors.New("containerd is running already")
	}
	if _, err := io.WriteString(s.control, "start\n"); err != nil {
		return fmt.Errorf("ask for containerd: %w", err)
	}
	return s.await(ctx, func() bool { return s.starts > before })
}

// killContainerd returns when the process is gone; it is fine if none ran.
func (s *supervisor) killContainerd(ctx context.Context) error {
	s.mu.Lock()
	pid := s.containerd
	s.mu.Unlock()
	if pid == "" {
		return nil
	}
	if _, err := fmt.Fprintf(s.control, "kill %s\n", pid); err != nil {
		return fmt.Errorf("ask to kill containerd: %w", err)
	}
	return s.await(ctx, func() bool { return s.containerd != pid })
}

// stop ends PID 1 and with it every process of the host. The kernel reaps
// them all before PID 1 itself, so that none is left when stop returns.
func (s *supervisor) stop() error {
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill host: %w", err)
	}
	<-s.done
	var exit *exec.ExitError
	if s.waitErr != nil && !errors.As(s.waitErr, &exit) {
		return fmt.Errorf("wait for host: %w", s.waitErr)
	}
	return nil
}
