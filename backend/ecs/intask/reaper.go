package intask

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// reaper starts processes and waits for them, and for all others that end up as
// children of this one: those of PID 1, or of a subreaper (prctl(2)). Nothing else
// in the process may wait for children.
type reaper struct {
	mu       sync.Mutex
	children map[int]*process
}

// process is one that a reaper started.
type process struct {
	reaper *reaper
	pid    int
	// done is closed once it has ended; status is read after that.
	done   chan struct{}
	status syscall.WaitStatus
}

// newReaper is one that waits until ctx ends.
func newReaper(ctx context.Context) (*reaper, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, os.NewSyscallError("prctl(PR_SET_CHILD_SUBREAPER)", err)
	}
	r := &reaper{children: map[int]*process{}}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		defer signal.Stop(ended)
		for {
			r.reap()
			select {
			case <-ctx.Done():
				return
			case <-ended:
			}
		}
	}()
	return r, nil
}

// reap takes all that have ended. It returns false when there is no child left.
func (r *reaper) reap() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return false
		case pid <= 0:
			return true
		}
		if p := r.children[pid]; p != nil {
			delete(r.children, pid)
			p.status = status
			close(p.done)
		}
	}
}

// start is fork and exec. The lock keeps reap from taking the child before it is
// known.
func (r *reaper) start(path string, argv []string, attr *syscall.ProcAttr) (*process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return nil, err
	}
	p := &process{reaper: r, pid: pid, done: make(chan struct{})}
	r.children[pid] = p
	return p, nil
}

// Wait returns the exit code once the process has ended: 128+n for a signal.
func (p *process) Wait() int {
	<-p.done
	if p.status.Signaled() {
		return 128 + int(p.status.Signal())
	}
	return p.status.ExitStatus()
}

// Signal sends a signal to the process's group. It is an error if the process has
// ended: the number may be another's by now.
func (p *process) Signal(s syscall.Signal) error { return p.kill(-p.pid, s) }

// signalAlone sends a signal to the process itself.
func (p *process) signalAlone(s syscall.Signal) error { return p.kill(p.pid, s) }

func (p *process) kill(pid int, s syscall.Signal) error {
	p.reaper.mu.Lock()
	defer p.reaper.mu.Unlock()
	if p.reaper.children[p.pid] != p {
		return os.ErrProcessDone
	}
	return syscall.Kill(pid, s)
}

// Bounds of the end of what a container leaves behind.
const (
	leftOver     = 5 * time.Second
	leftOverPoll = 10 * time.Millisecond
)

// killRest kills what is left of a container, and returns when it is gone: all that descend
// from this process. The agent of ECS Exec, which AWS starts in the container from outside
// and kill(-1) would end, does not.
func (r *reaper) killRest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leftOver)
	defer cancel()
	ticker := time.NewTicker(leftOverPoll)
	defer ticker.Stop()
	for {
		r.killDescendants()
		if !r.reap() {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// killDescendants kills this process's children and theirs. None of its own is reaped
// meanwhile: a number stays its own.
func (r *reaper) killDescendants() {
	r.mu.Lock()
	defer r.mu.Unlock()
	self := os.Getpid()
	entries, err := os.ReadDir("/proc")
	if shown, lerr := os.Readlink("/proc/self"); err != nil || lerr != nil || shown != strconv.Itoa(self) {
		if self == 1 { // what /proc shows are not this container's: end whatever there is
			_ = syscall.Kill(-1, syscall.SIGKILL) // ESRCH: there is none
		}
		return
	}
	parents := map[int]int{}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			parents[pid] = parentOf(pid)
		}
	}
	for pid := range parents {
		if descends(parents, pid, self) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
}

// descends is true for a process below another.
func descends(parents map[int]int, pid, from int) bool {
	for range parents { // a number may be another's by now: no longer than there are processes
		if pid = parents[pid]; pid == 0 || pid == from {
			break
		}
	}
	return pid == from
}

// parentOf is 0 for a process that is gone (proc(5), /proc/pid/stat).
func parentOf(pid int) int {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// The name, in parentheses, may hold anything.
	_, rest, _ := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		return 0
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return parent
}
