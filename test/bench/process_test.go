package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// stopWait bounds how long a program may take to end by itself.
const stopWait = 20 * time.Second

// process is a program under test.
type process struct {
	b    *testing.B
	name string
	log  lockedBuffer
	cmd  *exec.Cmd
	done chan struct{}
	err  error // of the program; read it when done is closed
}

// lockedBuffer keeps what a process prints.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lockedBuffer) tail(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.buf.String()
	return text[max(0, len(text)-n):]
}

// startProcess starts a program and ends it with the benchmark.
func startProcess(b *testing.B, name, path string, env []string, args ...string) *process {
	b.Helper()
	p := &process{b: b, name: name, cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	b.Cleanup(func() {
		if b.Failed() {
			b.Logf("end of the log of %s:\n%s", name, p.log.tail(4000))
		}
		p.stop()
	})
	return p
}

// running fails the benchmark if the program has ended.
func (p *process) running() {
	p.b.Helper()
	select {
	case <-p.done:
		p.b.Fatalf("%s ended: %v\n%s", p.name, p.err, p.log.tail(4000))
	default:
	}
}

// kill ends the program with SIGKILL.
func (p *process) kill() { p.signal(syscall.SIGKILL) }

// stop ends the program as an operator does. A second call does nothing.
func (p *process) stop() { p.signal(syscall.SIGTERM) }

func (p *process) signal(s syscall.Signal) {
	p.b.Helper()
	select {
	case <-p.done:
		return
	default:
	}
	if err := p.cmd.Process.Signal(s); err != nil {
		p.b.Errorf("end %s: %v", p.name, err)
	}
	select {
	case <-p.done:
	case <-time.After(stopWait):
		p.b.Errorf("%s did not end within %s", p.name, stopWait)
		if err := p.cmd.Process.Kill(); err != nil {
			p.b.Error(err)
		}
		<-p.done
	}
}

// rss is the program's resident memory in bytes.
func (p *process) rss() float64 {
	p.b.Helper()
	p.running()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			if err != nil {
				p.b.Fatal(err)
			}
			return kib * 1024
		}
	}
	p.b.Fatalf("/proc status of %s has no VmRSS", p.name)
	return 0
}

// clockTick is USER_HZ, which Linux fixes at 100 on all that Go runs on.
const clockTick = 10 * time.Millisecond

// cpu is the processor time that the program has used.
func (p *process) cpu() time.Duration {
	p.b.Helper()
	p.running()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		p.b.Fatal(err)
	}
	// The name in parentheses may hold anything; utime and stime are the 12th and
	// 13th fields after it.
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		p.b.Fatalf("/proc stat of %s: %q", p.name, text)
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			p.b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick
}
