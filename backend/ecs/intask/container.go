package intask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// selfExe is this program, also in a child that is about to execute it (proc(5)).
const selfExe = "/proc/self/exe"

// container is where the processes of one container come from: the container's
// command, its probes and hooks, and the commands of sessions.
type container struct {
	reaper *reaper
	// credential is as enter takes it.
	credential string
	uid        int
	env        []string
	dir        string
}

// Start is Starter's.
func (c *container) Start(cmd Command) (Process, error) {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if cmd.Terminal {
		attr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	}
	p, err := c.start(cmd, attr)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// start starts a command and returns once it is its own program, or could not be.
func (c *container) start(cmd Command, how *syscall.SysProcAttr) (*process, error) {
	if len(cmd.Argv) == 0 {
		return nil, errors.New("there is no command")
	}
	told, tell, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = told.Close() }() // all that came was read
	attr := &syscall.ProcAttr{Dir: c.dir, Env: withEnv(c.env, cmd.Env), Sys: how}
	for _, f := range []*os.File{cmd.Stdin, cmd.Stdout, cmd.Stderr} {
		if err := c.give(f); err != nil {
			return nil, fmt.Errorf("start %q: %w", cmd.Argv[0], errors.Join(err, tell.Close()))
		}
		attr.Files = append(attr.Files, f.Fd())
	}
	attr.Files = append(attr.Files, tell.Fd())
	p, err := c.reaper.start(selfExe, append([]string{c.name(), CommandEnter, c.credential, "--"}, cmd.Argv...), attr)
	if closed := tell.Close(); err == nil && closed != nil {
		err = closed
	}
	if err != nil {
		return nil, fmt.Errorf("start %q: %w", cmd.Argv[0], err)
	}
	text, err := io.ReadAll(told)
	if err != nil {
		return nil, fmt.Errorf("start %q: %w", cmd.Argv[0], err)
	}
	if len(text) == 0 {
		return p, nil
	}
	p.Wait()
	var why startError
	if err := json.Unmarshal(text, &why.failure); err != nil {
		return nil, fmt.Errorf("start %q: it did not say why it failed: %w", cmd.Argv[0], err)
	}
	return nil, &why
}

// give makes a command's terminal or pipe its user's, so that /dev/stdout can be
// opened, as runc does (fixStdioPermissions). What cannot be given stays.
func (c *container) give(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) == c.uid || info.Mode().IsRegular() || isNull(stat) {
		return nil
	}
	switch err := f.Chown(c.uid, -1); {
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EPERM), errors.Is(err, unix.EROFS):
		return nil
	default:
		return err
	}
}

// isNull is true for /dev/null, which is everybody's (devices.txt: 1, 3).
func isNull(s *syscall.Stat_t) bool { return s.Rdev == unix.Mkdev(1, 3) }

// name is what the stage before the command is called in a list of processes.
func (*container) name() string { return "burstlet-task" }

// ran is how a command ended, and what it wrote, bounded.
type ran struct {
	code           int
	stdout, stderr string
}

// text is all that it wrote.
func (r ran) text() string { return clip(r.stdout + r.stderr) }

// output runs a command to its end. When ctx ends first, it and its group are killed
// and the error is ctx's.
func (c *container) output(ctx context.Context, argv []string) (ran, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDONLY, 0)
	if err != nil {
		return ran{}, err
	}
	defer func() { _ = null.Close() }() // it was only read
	stdout, err := newCapture()
	if err != nil {
		return ran{}, err
	}
	defer stdout.close()
	stderr, err := newCapture()
	if err != nil {
		return ran{}, err
	}
	defer stderr.close()
	p, err := c.start(
		Command{Argv: argv, Stdin: null, Stdout: stdout.w, Stderr: stderr.w}, &syscall.SysProcAttr{Setpgid: true},
	)
	if err != nil {
		return ran{}, err
	}
	stdout.begin()
	stderr.begin()
	select {
	case <-p.done:
	case <-ctx.Done():
		if err := p.Signal(unix.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return ran{}, fmt.Errorf("kill %q: %w", argv[0], err)
		}
		return ran{}, ctx.Err()
	}
	return ran{p.Wait(), stdout.text(), stderr.text()}, nil
}
