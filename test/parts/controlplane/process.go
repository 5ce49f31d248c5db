package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// stopGrace is how long a process may take to end after SIGTERM.
	stopGrace = 15 * time.Second
	// tailBytes is how much of a log an error quotes.
	tailBytes = 4096
)

// process is a running program. A goroutine of its own starts it, waits for it
// and ends with it.
type process struct {
	name, logPath string
	logFrom       int64 // where in its log this run begins
	cmd           *exec.Cmd
	failed        chan<- error
	watched       atomic.Bool // report to failed when it ends by itself
	stopping      atomic.Bool
	done          chan struct{} // closed when the program has ended and was reaped
	err           error         // how it ended; valid once done is closed
}

// startProcess starts a program in dir with its output appended to logPath.
// Once watch was called its end, unless by stop, is offered to failed.
func startProcess(name, path string, args []string, dir, logPath string, failed chan<- error) (*process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	info, err := log.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), log.Close())
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL,
		Setpgid:   true, // a terminal's Ctrl-C is for us; we stop them in order
	}
	p := &process{
		name: name, logPath: logPath, logFrom: info.Size(),
		cmd: cmd, failed: failed, done: make(chan struct{}),
	}
	started := make(chan error, 1)
	go p.own(log, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// own runs the program. The parent-death signal follows the thread that
// started the program, not the process, so this goroutine keeps its thread
// until the program has ended.
func (p *process) own(log io.Closer, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	closeErr := log.Close() // the program has its own descriptor
	if err != nil {
		started <- errors.Join(err, closeErr)
		return
	}
	started <- nil
	p.err = errors.Join(p.cmd.Wait(), closeErr)
	close(p.done)
	p.report()
}

// watch asks for a report when the program ends by itself, or has already.
func (p *process) watch() {
	p.watched.Store(true)
	select {
	case <-p.done:
		p.report()
	default:
	}
}

// report offers the reason of an unwanted end.
func (p *process) report() {
	if !p.watched.Load() || p.stopping.Load() {
		return
	}
	select {
	case p.failed <- p.failure():
	default: // one reason is enough
	}
}

// failure says how an ended program ended, with the end of its log.
func (p *process) failure() error {
	reason := p.err
	if reason == nil {
		reason = errors.New("exit status 0")
	}
	return fmt.Errorf("%s ended: %w; end of %s:\n%s", p.name, reason, p.logPath, p.logTail())
}

// logTail returns the last lines that this run of the program logged.
func (p *process) logTail() []byte {
	f, err := os.Open(p.logPath)
	if err != nil {
		return []byte(err.Error())
	}
	defer f.Close() //nolint:errcheck // opened for reading
	info, err := f.Stat()
	if err != nil {
		return []byte(err.Error())
	}
	from := max(p.logFrom, info.Size()-tailBytes)
	tail, err := io.ReadAll(io.NewSectionReader(f, from, tailBytes))
	if err != nil {
		return []byte(err.Error())
	}
	if _, rest, ok := bytes.Cut(tail, []byte("\n")); ok && from > p.logFrom {
		tail = rest // the first line is cut
	}
	return bytes.TrimSpace(tail)
}

// stop ends the program: SIGTERM, and SIGKILL after the grace or when ctx ends.
// It returns once the program is gone.
func (p *process) stop(ctx context.Context, grace time.Duration) error {
	p.stopping.Store(true)
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

func (p *process) signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %s to %s: %w", s, p.name, err)
	}
	return nil
}
