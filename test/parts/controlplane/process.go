package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/burstlet/burstlet/test/kit/child"
)

const (
	// stopGrace is how long a process may take to end after SIGTERM.
	stopGrace = 15 * time.Second
	// tailBytes is how much of a log an error quotes.
	tailBytes = 4096
)

// process is a running program with its log.
type process struct {
	*child.Child
	name, logPath string
	logFrom       int64 // where in its log this run begins
	failed        chan<- error
	watched       atomic.Bool // report to failed when it ends by itself
	stopping      atomic.Bool
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
	cfg := child.Config{Name: name, Program: path, Args: args, Dir: dir, Log: log}
	if _, set := os.LookupEnv("GOGC"); !set {
		// Collecting garbage is an eighth of what an API server does in tests.
		cfg.Env = append(os.Environ(), "GOGC=200")
	}
	running, err := child.Start(cfg)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	p := &process{Child: running, name: name, logPath: logPath, logFrom: info.Size(), failed: failed}
	go func() {
		<-p.Done()
		_ = log.Close() // it was written; an error has nobody to tell
		p.report()
	}()
	return p, nil
}

// watch asks for a report when the program ends by itself, or has already.
func (p *process) watch() {
	p.watched.Store(true)
	select {
	case <-p.Done():
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
	return fmt.Errorf("%w; end of %s:\n%s", p.Err(), p.logPath, p.logTail())
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
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.Done():
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return p.kill()
}

// kill ends the program with SIGKILL and returns once it is gone.
func (p *process) kill() error {
	p.stopping.Store(true)
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.Done()
	return nil
}
